// Checks CustomResourceDefinitions, as YAML documents on standard input, as a kube-apiserver does before it stores them.
// Prints a line for each problem, and fails if there is one.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	// Strict, so that a field that Kubernetes does not know is an error.
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(apiextensions.SchemeGroupVersion)
	reader := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	count, failed := 0, false
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			panic(err)
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			fmt.Println(err)
			failed = true
			continue
		}
		count++
		definition := object.(*apiextensions.CustomResourceDefinition)
		for _, problem := range validation.ValidateCustomResourceDefinition(context.Background(), definition) {
			fmt.Printf("%s: %s\n", definition.Name, problem)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
	fmt.Printf("%d definitions\n", count)
}
