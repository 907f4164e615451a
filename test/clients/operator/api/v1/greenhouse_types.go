package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GreenhouseSpec is the climate that a greenhouse should have.
// +kubebuilder:validation:XValidation:rule="self.minCelsius < self.maxCelsius",message="minCelsius must be below maxCelsius"
type GreenhouseSpec struct {
	// Site is where the greenhouse stands. It does not change.
	// +kubebuilder:validation:Enum=hill;valley;shore
	Site string `json:"site"`

	// MinCelsius is the temperature below which the greenhouse is heated.
	// +kubebuilder:validation:Minimum=-20
	MinCelsius int32 `json:"minCelsius"`

	// MaxCelsius is the temperature above which the vents open.
	// +kubebuilder:validation:Maximum=60
	MaxCelsius int32 `json:"maxCelsius"`

	// Vents is the number of vents. By default there is one, and one more for each crop.
	// +optional
	Vents *int32 `json:"vents,omitempty"`

	// Crops are what grows in it.
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	// +optional
	Crops []string `json:"crops,omitempty"`
}

// GreenhouseStatus is what the controller has done.
type GreenhouseStatus struct {
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Vents is the number of vents that the settings have.
	// +optional
	Vents int32 `json:"vents,omitempty"`

	// Selector selects what belongs to the greenhouse.
	// +optional
	Selector string `json:"selector,omitempty"`

	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Greenhouse is a house of glass with a climate of its own.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:shortName=gh,categories=garden
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.vents,statuspath=.status.vents,selectorpath=.status.selector
// +kubebuilder:selectablefield:JSONPath=`.spec.site`
// +kubebuilder:printcolumn:name="Site",type=string,JSONPath=`.spec.site`
// +kubebuilder:printcolumn:name="Vents",type=integer,JSONPath=`.status.vents`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Greenhouse struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec GreenhouseSpec `json:"spec"`
	// +optional
	Status GreenhouseStatus `json:"status,omitzero"`
}

// GreenhouseList is a list of greenhouses.
// +kubebuilder:object:root=true
type GreenhouseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Greenhouse `json:"items"`
}

func init() {
	SchemeBuilder.Register(&Greenhouse{}, &GreenhouseList{})
}
