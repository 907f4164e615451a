package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/kube-openapi/pkg/spec3"
	openapiproto "k8s.io/kube-openapi/pkg/util/proto"
	"k8s.io/kube-openapi/pkg/validation/spec"
	ctrl "sigs.k8s.io/controller-runtime"
)

// runOpenAPI reads the OpenAPI documents as Kubernetes' clients do.
func runOpenAPI() error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	document, err := client.OpenAPISchema()
	if err != nil {
		return err
	}
	if err := reportForms(client, document); err != nil {
		return err
	}
	// kubectl up to 1.28 and Argo CD read the document like this, and cannot go on if one definition is not to their taste.
	models, err := openapiproto.NewOpenAPIData(document)
	if err != nil {
		return err
	}
	if _, err := managedfields.NewGVKParser(models, false); err != nil {
		return err
	}
	report("models", models.ListModels())
	return reportRoundTrips(client)
}

// reportForms reports whether the protobuf form is what gnostic makes of the JSON form.
func reportForms(client *discovery.DiscoveryClient, document *openapi_v2.Document) error {
	request := client.RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json")
	raw, err := request.Do(context.Background()).Raw()
	if err != nil {
		return err
	}
	parsed, err := openapi_v2.ParseDocument(raw)
	if err != nil {
		return err
	}
	protobuf, err := swaggerJSON(document)
	if err != nil {
		return err
	}
	fromJSON, err := swaggerJSON(parsed)
	if err != nil {
		return err
	}
	report("forms agree", bytes.Equal(protobuf, fromJSON))
	return nil
}

func swaggerJSON(document *openapi_v2.Document) ([]byte, error) {
	var swagger spec.Swagger
	complete, err := swagger.FromGnostic(document)
	if err != nil {
		return nil, err
	}
	if !complete {
		return nil, fmt.Errorf("the document has values that kube-openapi does not know")
	}
	return json.Marshal(swagger)
}

// reportRoundTrips reports the v3 documents that do not survive kube-openapi's types, as Kubernetes' e2e tests check it.
func reportRoundTrips(client *discovery.DiscoveryClient) error {
	root := openapi3.NewRoot(client.OpenAPIV3())
	groupVersions, err := root.GroupVersions()
	if err != nil {
		return err
	}
	changed := []string{}
	for _, groupVersion := range groupVersions {
		before, err := root.GVSpec(groupVersion)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(before)
		if err != nil {
			return err
		}
		var after spec3.OpenAPI
		if err := json.Unmarshal(raw, &after); err != nil {
			return err
		}
		if !reflect.DeepEqual(*before, after) {
			changed = append(changed, groupVersion.String())
		}
	}
	report("documents that change", changed)
	return nil
}
