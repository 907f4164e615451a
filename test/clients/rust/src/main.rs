//! Uses Setpoint through kube-rs: discovery, server-side apply, a watcher, and a controller with a finalizer.
//! `KUBECONFIG` names the file with the server's URL and credentials. Prints one fact a line, as JSON.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, Context as _, Result};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, ResourceExt};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{finalizer, Event};
use kube::runtime::wait::await_condition;
use kube::runtime::{conditions, watcher, WatchStreamExt};
use kube::{Client, CustomResource, Discovery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "widgets.example.com", version = "v1", kind = "Widget", namespaced)]
struct WidgetSpec {
    size: i32,
}

const NAME: &str = "from-rust";
const FINALIZER: &str = "widgets.example.com/rust";

fn report(fact: &str, value: impl Serialize) {
    println!("{}", serde_json::json!({ "fact": fact, "value": value }));
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(#[from] Box<kube::runtime::finalizer::Error<Error>>),
}

async fn reconcile(widget: Arc<Widget>, client: Arc<Client>) -> Result<Action, Error> {
    let namespace = widget.namespace().unwrap_or_default();
    let widgets: Api<Widget> = Api::namespaced(client.as_ref().clone(), &namespace);
    let configs: Api<ConfigMap> = Api::namespaced(client.as_ref().clone(), &namespace);
    finalizer(&widgets, FINALIZER, widget, |event| async {
        match event {
            Event::Apply(widget) => {
                let config = ConfigMap {
                    metadata: ObjectMeta { name: Some(widget.name_any()), ..ObjectMeta::default() },
                    data: Some([("size".to_string(), widget.spec.size.to_string())].into()),
                    ..ConfigMap::default()
                };
                let params = PatchParams::apply("rust").force();
                configs.patch(&widget.name_any(), &params, &Patch::Apply(config)).await?;
            }
            Event::Cleanup(widget) => {
                configs.delete(&widget.name_any(), &DeleteParams::default()).await?;
            }
        }
        Ok::<_, Error>(Action::await_change())
    })
    .await
    .map_err(|error| Error::Finalizer(Box::new(error)))
}

#[tokio::main]
async fn main() -> Result<()> {
    tokio::time::timeout(Duration::from_secs(120), run()).await.context("took longer than 120 s")?
}

async fn run() -> Result<()> {
    let client = Client::try_default().await?;
    let discovery = Discovery::new(client.clone()).run().await?;
    let mut groups: Vec<_> = discovery.groups().map(|group| group.name().to_string()).collect();
    groups.sort();
    report("groups", groups);

    let widgets: Api<Widget> = Api::namespaced(client.clone(), "default");
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let controller = Controller::new(widgets.clone(), watcher::Config::default())
        .owns(configs.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(200)), Arc::new(client.clone()))
        .for_each(|_| async {});
    let controller = tokio::spawn(controller);

    let widget = Widget::new(NAME, WidgetSpec { size: 1 });
    let applied = widgets.patch(NAME, &PatchParams::apply("user"), &Patch::Apply(&widget)).await?;
    report("applied", applied.spec.size);
    let mut events = Box::pin(watcher(configs.clone(), watcher::Config::default()).applied_objects());
    loop {
        let Some(config) = events.try_next().await? else { bail!("the watch has ended") };
        if config.name_any() == NAME {
            report("size", config.data.and_then(|data| data.get("size").cloned()));
            break;
        }
    }
    let uid = applied.uid().context("no uid")?;
    widgets.delete(NAME, &DeleteParams::default()).await?;
    await_condition(widgets.clone(), NAME, conditions::is_deleted(&uid)).await?;
    report("config left", configs.get_opt(NAME).await?.is_some());
    controller.abort();
    Ok(())
}
