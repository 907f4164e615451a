package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"

	"setpoint.dev/clients/api"
)

// report prints one fact for the test, as a line of JSON.
func report(fact string, value any) {
	line, err := json.Marshal(map[string]any{"fact": fact, "value": value})
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stdout, string(line))
}

// countedReads counts how informers get their initial objects: by lists, or by watches that begin with them.
type countedReads struct {
	lists      atomic.Int32
	watchLists atomic.Int32
}

func (c *countedReads) reset() {
	c.lists.Store(0)
	c.watchLists.Store(0)
}

func (c *countedReads) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		query := request.URL.Query()
		if query.Get("sendInitialEvents") == "true" {
			c.watchLists.Add(1)
		} else if request.Method == http.MethodGet && query.Get("watch") != "true" {
			c.lists.Add(1)
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

// runInformers uses the clients of client-go: typed with protobuf, dynamic and metadata, and an informer of each.
func runInformers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	reads := &countedReads{}
	config.Wrap(reads.wrap)
	protobuf := *config
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	typed, err := kubernetes.NewForConfig(&protobuf)
	if err != nil {
		return err
	}
	if err := useTyped(ctx, typed); err != nil {
		return fmt.Errorf("typed: %w", err)
	}
	reads.reset()
	resource := api.GroupVersion.WithResource("widgets")
	widgets, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	typedFactory := informers.NewSharedInformerFactory(typed, 0)
	dynamicFactory := dynamicinformer.NewDynamicSharedInformerFactory(widgets, 0)
	metadataFactory := metadatainformer.NewSharedInformerFactory(meta, 0)
	all := map[string]cache.SharedIndexInformer{
		"typed":    typedFactory.Core().V1().ConfigMaps().Informer(),
		"dynamic":  dynamicFactory.ForResource(resource).Informer(),
		"metadata": metadataFactory.ForResource(resource).Informer(),
	}
	typedFactory.Start(ctx.Done())
	dynamicFactory.Start(ctx.Done())
	metadataFactory.Start(ctx.Done())
	for name, informer := range all {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return fmt.Errorf("the %s informer has not synced", name)
		}
	}
	report("lists", reads.lists.Load())
	report("watch lists", reads.watchLists.Load())
	client := widgets.Resource(resource).Namespace("default")
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "Widget",
		"metadata": map[string]any{"name": "from-go"},
		"spec":     map[string]any{"size": int64(1)},
	}}
	if _, err := client.Create(ctx, widget, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := typed.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "from-go"}, Data: map[string]string{"a": "1"},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	patch := []byte(`{"spec":{"size":2}}`)
	patched, err := client.Patch(ctx, "from-go", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	for name, informer := range all {
		for {
			object, exists, err := informer.GetStore().GetByKey("default/from-go")
			if err != nil {
				return err
			}
			accessor, isMeta := object.(metav1.Object)
			if exists && isMeta && (name == "typed" || accessor.GetResourceVersion() == patched.GetResourceVersion()) {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the %s informer does not show the object", name)
			case <-time.After(10 * time.Millisecond):
			}
		}
		report("informer", name)
	}
	if err := client.Delete(ctx, "from-go", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return typed.CoreV1().ConfigMaps("default").Delete(ctx, "from-go", metav1.DeleteOptions{})
}

// useTyped creates, reads, changes and deletes a Lease and an Event, whose bodies are protobuf.
func useTyped(ctx context.Context, typed kubernetes.Interface) error {
	holder, seconds := "go", int32(15)
	// The wire form of the time has microseconds.
	now := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
	leases := typed.CoordinationV1().Leases("default")
	lease, err := leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "typed.example.com"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if lease.Spec.RenewTime == nil || !lease.Spec.RenewTime.Equal(&now) {
		return fmt.Errorf("the time of the lease has changed from %v to %v", now, lease.Spec.RenewTime)
	}
	stale := lease.DeepCopy()
	other := "else"
	lease.Spec.HolderIdentity = &other
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if _, err := leases.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("expected a conflict, got %v", err)
	}
	if err := leases.Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID},
	}); err != nil {
		return err
	}
	if _, err := leases.Get(ctx, lease.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("expected not found, got %v", err)
	}
	report("typed", "Lease")
	namespaces, err := typed.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	names := []string{}
	for _, namespace := range namespaces.Items {
		names = append(names, namespace.Name)
	}
	report("namespaces", names)
	version, err := typed.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	report("version", version.Major+"."+version.Minor)
	groups, resources, err := typed.Discovery().ServerGroupsAndResources()
	if err != nil {
		return err
	}
	report("discovery", []int{len(groups), len(resources)})
	return nil
}
