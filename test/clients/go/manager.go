package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"setpoint.dev/clients/api"
)

const finalizer = "widgets.example.com/cleanup"

// runManager runs a controller manager as `kubebuilder init` writes it, until it is terminated.
func runManager(args []string) error {
	flags := flag.NewFlagSet("manager", flag.ExitOnError)
	metricsAddress := flags.String("metrics-bind-address", "0", "address of the metrics")
	probeAddress := flags.String("health-probe-bind-address", "0", "address of the probes")
	leaderElect := flags.Bool("leader-elect", true, "run one active manager")
	_ = flags.Parse(args)

	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := api.AddToScheme(scheme); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: *metricsAddress},
		HealthProbeBindAddress:        *probeAddress,
		LeaderElection:                *leaderElect,
		LeaderElectionID:              "manager.widgets.example.com",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	reconciler := &widgetReconciler{
		Client: manager.GetClient(),
		events: manager.GetEventRecorderFor("widget-controller"),
	}
	err = ctrl.NewControllerManagedBy(manager).For(&api.Widget{}).Owns(&corev1.ConfigMap{}).Complete(reconciler)
	if err != nil {
		return err
	}
	if err := manager.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "manager started")
	return manager.Start(ctrl.SetupSignalHandler())
}

// widgetReconciler keeps a ConfigMap with the size of each Widget, and a condition that says so.
type widgetReconciler struct {
	client.Client
	events record.EventRecorder
}

func (r *widgetReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	widget := &api.Widget{}
	if err := r.Get(ctx, request.NamespacedName, widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !widget.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(widget, finalizer) {
			return ctrl.Result{}, nil
		}
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: widget.Namespace, Name: widget.Name}}
		if err := client.IgnoreNotFound(r.Delete(ctx, config)); err != nil {
			return ctrl.Result{}, err
		}
		r.events.Event(widget, corev1.EventTypeNormal, "CleanedUp", "deleted the ConfigMap")
		controllerutil.RemoveFinalizer(widget, finalizer)
		return ctrl.Result{}, r.Update(ctx, widget)
	}
	if controllerutil.AddFinalizer(widget, finalizer) {
		if err := r.Update(ctx, widget); err != nil {
			return ctrl.Result{}, err
		}
	}
	owner := metav1apply.OwnerReference().
		WithAPIVersion(api.GroupVersion.String()).WithKind("Widget").WithName(widget.Name).WithUID(widget.UID).
		WithController(true).WithBlockOwnerDeletion(true)
	config := corev1apply.ConfigMap(widget.Name, widget.Namespace).
		WithOwnerReferences(owner).
		WithData(map[string]string{"size": strconv.Itoa(int(widget.Spec.Size))})
	if err := r.Apply(ctx, config, client.FieldOwner("widget-controller"), client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	if widget.Status.ObservedGeneration == widget.Generation {
		return ctrl.Result{}, nil
	}
	widget.Status.ObservedGeneration = widget.Generation
	meta.SetStatusCondition(&widget.Status.Conditions, metav1.Condition{
		Type:               "Ready",
		Status:             metav1.ConditionTrue,
		Reason:             "Configured",
		ObservedGeneration: widget.Generation,
	})
	if err := r.Status().Update(ctx, widget); err != nil {
		return ctrl.Result{}, err
	}
	r.events.Eventf(widget, corev1.EventTypeNormal, "Configured", "size %d", widget.Spec.Size)
	return ctrl.Result{}, nil
}
