// The program clients uses Setpoint through client-go and controller-runtime. The server's URL and credentials are in the
// file that KUBECONFIG names.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 0 && args[0] == "manager":
		return runManager(args[1:])
	case len(args) == 1 && args[0] == "informers":
		return runInformers()
	case len(args) == 1 && args[0] == "openapi":
		return runOpenAPI()
	case len(args) == 1 && args[0] == "protobuf":
		return runProtobuf()
	default:
		return fmt.Errorf("usage: clients manager [flags] | clients informers | clients openapi | clients protobuf")
	}
}
