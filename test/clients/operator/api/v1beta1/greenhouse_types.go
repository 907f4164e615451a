package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Range is a range of temperatures.
type Range struct {
	From int32 `json:"from"`
	To   int32 `json:"to"`
}

// GreenhouseSpec is the climate that a greenhouse should have.
type GreenhouseSpec struct {
	Site    string `json:"site"`
	Celsius Range  `json:"celsius"`
	// +optional
	Vents *int32 `json:"vents,omitempty"`
	// Crops are separated by spaces.
	// +optional
	Crops string `json:"crops,omitempty"`
}

// GreenhouseStatus is what the controller has done.
type GreenhouseStatus struct {
	// +optional
	Available bool `json:"available,omitempty"`
	// +optional
	Vents int32 `json:"vents,omitempty"`
}

// Greenhouse is a house of glass with a climate of its own.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=gh,categories=garden
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="From",type=integer,JSONPath=`.spec.celsius.from`
// +kubebuilder:printcolumn:name="To",type=integer,JSONPath=`.spec.celsius.to`
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
