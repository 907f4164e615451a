// Package controller has the controller of greenhouses.
package controller

import (
	"context"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "setpoint.dev/operator/api/v1"
)

const (
	finalizer = "garden.example.com/land-register"
	available = "Available"
	// landRegister is a ConfigMap with a key for each greenhouse, which owns nothing and is owned by none.
	landRegister = "land-register"
)

// GreenhouseReconciler keeps the settings of each greenhouse in a ConfigMap, and its site in the land register.
type GreenhouseReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder record.EventRecorder
}

// +kubebuilder:rbac:groups=garden.example.com,resources=greenhouses,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=garden.example.com,resources=greenhouses/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=garden.example.com,resources=greenhouses/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch

// Reconcile moves the world towards the greenhouse.
func (r *GreenhouseReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	greenhouse := &v1.Greenhouse{}
	if err := r.Get(ctx, request.NamespacedName, greenhouse); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !greenhouse.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.release(ctx, greenhouse)
	}
	if controllerutil.AddFinalizer(greenhouse, finalizer) {
		if err := r.Update(ctx, greenhouse); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.register(ctx, greenhouse, greenhouse.Spec.Site); err != nil {
		return ctrl.Result{}, err
	}
	vents := int32(0)
	if greenhouse.Spec.Vents != nil {
		vents = *greenhouse.Spec.Vents
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: greenhouse.Namespace, Name: greenhouse.Name}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, settings, func() error {
		settings.Labels = map[string]string{"greenhouse": greenhouse.Name}
		settings.Data = map[string]string{
			"min":   strconv.Itoa(int(greenhouse.Spec.MinCelsius)),
			"max":   strconv.Itoa(int(greenhouse.Spec.MaxCelsius)),
			"vents": strconv.Itoa(int(vents)),
			"crops": strings.Join(greenhouse.Spec.Crops, ","),
		}
		return controllerutil.SetControllerReference(greenhouse, settings, r.Scheme)
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if result != controllerutil.OperationResultNone {
		r.Recorder.Eventf(greenhouse, corev1.EventTypeNormal, "Configured", "settings %s", result)
	}
	before := greenhouse.DeepCopy()
	greenhouse.Status.ObservedGeneration = greenhouse.Generation
	greenhouse.Status.Vents = vents
	greenhouse.Status.Selector = "greenhouse=" + greenhouse.Name
	meta.SetStatusCondition(&greenhouse.Status.Conditions, metav1.Condition{
		Type:               available,
		Status:             metav1.ConditionTrue,
		Reason:             "Configured",
		Message:            "the settings are up to date",
		ObservedGeneration: greenhouse.Generation,
	})
	return ctrl.Result{}, r.Status().Patch(ctx, greenhouse, client.MergeFrom(before))
}

// release takes the greenhouse out of the land register, and then off its finalizer. Its settings go with it.
func (r *GreenhouseReconciler) release(ctx context.Context, greenhouse *v1.Greenhouse) error {
	if !controllerutil.ContainsFinalizer(greenhouse, finalizer) {
		return nil
	}
	if err := r.register(ctx, greenhouse, ""); err != nil {
		return err
	}
	r.Recorder.Event(greenhouse, corev1.EventTypeNormal, "Released", "taken out of the land register")
	controllerutil.RemoveFinalizer(greenhouse, finalizer)
	return client.IgnoreNotFound(r.Update(ctx, greenhouse))
}

// register writes the site into the land register, or removes the greenhouse from it if the site is empty.
func (r *GreenhouseReconciler) register(ctx context.Context, greenhouse *v1.Greenhouse, site string) error {
	register := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: greenhouse.Namespace, Name: landRegister}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, register, func() error {
		if site == "" {
			delete(register.Data, greenhouse.Name)
			return nil
		}
		if register.Data == nil {
			register.Data = map[string]string{}
		}
		register.Data[greenhouse.Name] = site
		return nil
	})
	if apierrors.IsAlreadyExists(err) {
		// Another greenhouse has created it, and the cache does not know yet.
		return r.register(ctx, greenhouse, site)
	}
	return err
}

// SetupWithManager adds the controller to the manager.
func (r *GreenhouseReconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).
		For(&v1.Greenhouse{}).
		Owns(&corev1.ConfigMap{}).
		Named("greenhouse").
		Complete(r)
}
