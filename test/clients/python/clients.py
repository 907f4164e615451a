"""Uses Setpoint through the Python client. KUBECONFIG names the file with the server's URL and credentials.

Prints one fact a line, as JSON.
"""

import json
import sys

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException


def report(fact, value):
    print(json.dumps({"fact": fact, "value": value}), flush=True)


def use_core(api_client):
    core = client.CoreV1Api(api_client)
    report("namespaces", sorted(item.metadata.name for item in core.list_namespace().items))
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="from-python"), data={"a": "1"})
    core.create_namespaced_config_map("default", body)
    core.patch_namespaced_config_map("from-python", "default", {"data": {"b": "2"}})
    report("config map", core.read_namespaced_config_map("from-python", "default").data)
    core.delete_namespaced_config_map("from-python", "default")
    try:
        core.read_namespaced_config_map("from-python", "default")
    except ApiException as error:
        report("deleted", [error.status, json.loads(error.body)["reason"]])


def use_dynamic(api_client):
    dyn = dynamic.DynamicClient(api_client)
    found = dyn.resources.search(kind="Widget")
    report("search", [f"{each.group_version}/{each.name}" for each in found])
    widgets = dyn.resources.get(api_version="widgets.example.com/v1", kind="Widget")
    manifest = {
        "apiVersion": "widgets.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "from-python"},
        "spec": {"size": 1},
    }
    applied = widgets.server_side_apply(body=manifest, namespace="default", field_manager="python")
    report("manager", applied.metadata.managedFields[0].manager)
    version = applied.metadata.resourceVersion
    widgets.patch(
        body={"spec": {"size": 2}},
        name="from-python",
        namespace="default",
        content_type="application/merge-patch+json",
    )
    manifest["spec"]["size"] = 3
    try:
        widgets.server_side_apply(body=manifest, namespace="default", field_manager="python")
    except ApiException as error:
        report("conflict", error.status)
    widgets.server_side_apply(
        body=manifest, namespace="default", field_manager="python", force_conflicts=True
    )
    widgets.delete(name="from-python", namespace="default")
    seen = []
    for event in widgets.watch(namespace="default", resource_version=version, timeout=30):
        if event["object"].metadata.name == "from-python":
            seen.append([event["type"], event["raw_object"]["spec"]["size"]])
        if event["type"] == "DELETED":
            break
    report("watch", seen)


def use_custom_objects(api_client):
    custom = client.CustomObjectsApi(api_client)
    place = ("widgets.example.com", "v1", "default", "widgets")
    body = {
        "apiVersion": "widgets.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "custom"},
        "spec": {"size": 5},
    }
    custom.create_namespaced_custom_object(*place, body)
    stream = watch.Watch()
    for event in stream.stream(custom.list_namespaced_custom_object, *place, timeout_seconds=30):
        if event["object"]["metadata"]["name"] == "custom":
            report("stream", event["type"])
            stream.stop()
    custom.delete_namespaced_custom_object(*place, "custom")


def main():
    api_client = config.new_client_from_config()
    report("version", client.VersionApi(api_client).get_code().git_version)
    use_core(api_client)
    use_dynamic(api_client)
    use_custom_objects(api_client)


if __name__ == "__main__":
    sys.exit(main())
