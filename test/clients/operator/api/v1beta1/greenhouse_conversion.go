package v1beta1

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	v1 "setpoint.dev/operator/api/v1"
)

const available = "Available"

// ConvertTo fills the stored version. A status in this version has no more than a condition and the number of vents.
func (from *Greenhouse) ConvertTo(hub conversion.Hub) error {
	to := hub.(*v1.Greenhouse)
	to.ObjectMeta = from.ObjectMeta
	to.Spec = v1.GreenhouseSpec{
		Site:       from.Spec.Site,
		MinCelsius: from.Spec.Celsius.From,
		MaxCelsius: from.Spec.Celsius.To,
		Vents:      from.Spec.Vents,
		Crops:      strings.Fields(from.Spec.Crops),
	}
	to.Status.Vents = from.Status.Vents
	if from.Status.Available {
		to.Status.Conditions = []metav1.Condition{{
			Type:               available,
			Status:             metav1.ConditionTrue,
			Reason:             "Converted",
			LastTransitionTime: from.CreationTimestamp,
		}}
	}
	return nil
}

// ConvertFrom fills this version.
func (to *Greenhouse) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*v1.Greenhouse)
	to.ObjectMeta = from.ObjectMeta
	to.Spec = GreenhouseSpec{
		Site:    from.Spec.Site,
		Celsius: Range{From: from.Spec.MinCelsius, To: from.Spec.MaxCelsius},
		Vents:   from.Spec.Vents,
		Crops:   strings.Join(from.Spec.Crops, " "),
	}
	to.Status = GreenhouseStatus{
		Vents:     from.Status.Vents,
		Available: meta.IsStatusConditionTrue(from.Status.Conditions, available),
	}
	return nil
}
