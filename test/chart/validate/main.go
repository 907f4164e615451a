// Decodes Kubernetes manifests strictly: a kind that it does not know, an unknown or doubled field and a value of the
// wrong type are problems. Reads [{"name", "yaml"}] from standard input, writes the problems as JSON texts, one list.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

type manifests struct {
	Name string `json:"name"`
	YAML string `json:"yaml"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, autoscaling.AddToScheme, core.AddToScheme,
		networking.AddToScheme, policy.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	options := serializer.SerializerOptions{Yaml: true, Strict: true}
	decoder := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme, options)

	var all []manifests
	if err := json.NewDecoder(in).Decode(&all); err != nil {
		return err
	}
	problems := []string{}
	for _, each := range all {
		documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader([]byte(each.YAML))))
		for n := 0; ; n++ {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if _, _, err := decoder.Decode(document, nil, nil); err != nil {
				problems = append(problems, fmt.Sprintf("%s: document %d: %v", each.Name, n, err))
			}
		}
	}
	return json.NewEncoder(out).Encode(problems)
}
