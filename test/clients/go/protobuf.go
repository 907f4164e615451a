package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
)

const protobufType = "application/vnd.kubernetes.protobuf"

// onlyProtobuf fails for a response of another type.
func onlyProtobuf(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		if given := response.Header.Get("Content-Type"); !strings.HasPrefix(given, protobufType) {
			response.Body.Close()
			return nil, fmt.Errorf("%s %s: the response is %s", request.Method, request.URL, given)
		}
		return response, nil
	})
}

// runProtobuf uses a typed client that accepts nothing but protobuf, and compares what it gets with a client of JSON.
func runProtobuf() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	plain := rest.CopyConfig(config)
	plain.ContentType = "application/json"
	config.ContentType = protobufType
	config.AcceptContentTypes = protobufType
	config.Wrap(onlyProtobuf)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	inJSON, err := kubernetes.NewForConfig(plain)
	if err != nil {
		return err
	}
	maps, mapsInJSON := client.CoreV1().ConfigMaps("default"), inJSON.CoreV1().ConfigMaps("default")
	made, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "protobuf", Labels: map[string]string{"of": "protobuf"}},
		Data:       map[string]string{"a": "1", "b": ""}, BinaryData: map[string][]byte{"c": {0, 255}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "of=protobuf", Limit: 1})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	events, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: "of=protobuf", ResourceVersion: list.ResourceVersion})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	made.Data["a"] = "2"
	if made, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	patch := []byte(`{"data":{"d":"3"}}`)
	if _, err := maps.Patch(ctx, "protobuf", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	got, err := maps.Get(ctx, "protobuf", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	same, err := mapsInJSON.Get(ctx, "protobuf", metav1.GetOptions{})
	if err != nil {
		return err
	}
	got.TypeMeta, same.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
	got.CreationTimestamp, same.CreationTimestamp = got.CreationTimestamp.Rfc3339Copy(), same.CreationTimestamp.Rfc3339Copy()
	report("equal", equality.Semantic.DeepEqual(got, same))
	_, err = maps.Update(ctx, list.Items[0].DeepCopy(), metav1.UpdateOptions{})
	report("conflict", apierrors.IsConflict(err))
	if err := maps.Delete(ctx, "protobuf", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	_, err = maps.Get(ctx, "protobuf", metav1.GetOptions{})
	report("not found", apierrors.IsNotFound(err))
	story := []string{}
	for range 3 {
		event := <-events.ResultChan()
		object, isConfigMap := event.Object.(*corev1.ConfigMap)
		if !isConfigMap {
			return fmt.Errorf("an event %s of %T", event.Type, event.Object)
		}
		story = append(story, fmt.Sprintf("%s %s %s", event.Type, object.Data["a"], object.Data["d"]))
	}
	events.Stop()
	report("events", story)
	late, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: "9007199254740000"})
	if err != nil {
		return fmt.Errorf("late watch: %w", err)
	}
	last := <-late.ResultChan()
	report("expired", last.Type == watch.Error && apierrors.IsResourceExpired(apierrors.FromObject(last.Object)))
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "configmaps"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("review: %w", err)
	}
	report("allowed", review.Status.Allowed)
	return nil
}
