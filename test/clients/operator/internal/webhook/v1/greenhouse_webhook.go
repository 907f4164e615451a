// Package v1 has the webhooks of greenhouses, which the API server calls before it stores one.
package v1

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	v1 "setpoint.dev/operator/api/v1"
)

// Protected is the annotation of a greenhouse that cannot be deleted.
const Protected = "garden.example.com/protected"

// SetupGreenhouseWebhookWithManager adds the webhooks, and the conversion between the versions.
func SetupGreenhouseWebhookWithManager(manager ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(manager).For(&v1.Greenhouse{}).
		WithDefaulter(&greenhouseDefaulter{}).
		WithValidator(&greenhouseValidator{}).
		Complete()
}

// +kubebuilder:webhook:path=/mutate-garden-example-com-v1-greenhouse,mutating=true,failurePolicy=fail,sideEffects=None,groups=garden.example.com,resources=greenhouses,verbs=create;update,versions=v1,name=mgreenhouse-v1.kb.io,admissionReviewVersions=v1

type greenhouseDefaulter struct{}

var _ webhook.CustomDefaulter = &greenhouseDefaulter{}

func (*greenhouseDefaulter) Default(_ context.Context, object runtime.Object) error {
	greenhouse := object.(*v1.Greenhouse)
	if greenhouse.Spec.Vents == nil {
		vents := int32(1 + len(greenhouse.Spec.Crops))
		greenhouse.Spec.Vents = &vents
	}
	return nil
}

// +kubebuilder:webhook:path=/validate-garden-example-com-v1-greenhouse,mutating=false,failurePolicy=fail,sideEffects=None,groups=garden.example.com,resources=greenhouses,verbs=create;update;delete,versions=v1,name=vgreenhouse-v1.kb.io,admissionReviewVersions=v1

type greenhouseValidator struct{}

var _ webhook.CustomValidator = &greenhouseValidator{}

func (*greenhouseValidator) ValidateCreate(_ context.Context, object runtime.Object) (admission.Warnings, error) {
	return check(object.(*v1.Greenhouse), nil)
}

func (*greenhouseValidator) ValidateUpdate(_ context.Context, old, object runtime.Object) (admission.Warnings, error) {
	return check(object.(*v1.Greenhouse), old.(*v1.Greenhouse))
}

func (*greenhouseValidator) ValidateDelete(_ context.Context, object runtime.Object) (admission.Warnings, error) {
	greenhouse := object.(*v1.Greenhouse)
	if greenhouse.Annotations[Protected] == "true" {
		return nil, fmt.Errorf("the greenhouse is protected by its annotation %s", Protected)
	}
	return nil, nil
}

func check(greenhouse, old *v1.Greenhouse) (admission.Warnings, error) {
	spec := field.NewPath("spec")
	var problems field.ErrorList
	if slices.Contains(greenhouse.Spec.Crops, "tomatoes") && greenhouse.Spec.MinCelsius < 12 {
		problems = append(problems, field.Invalid(spec.Child("minCelsius"), greenhouse.Spec.MinCelsius, "tomatoes need 12 degrees"))
	}
	if old != nil && old.Spec.Site != greenhouse.Spec.Site {
		problems = append(problems, field.Forbidden(spec.Child("site"), "a greenhouse does not move"))
	}
	if len(problems) > 0 {
		return nil, apierrors.NewInvalid(v1.GroupVersion.WithKind("Greenhouse").GroupKind(), greenhouse.Name, problems)
	}
	if greenhouse.Spec.MaxCelsius > 40 {
		return admission.Warnings{"few crops grow above 40 degrees"}, nil
	}
	return nil, nil
}
