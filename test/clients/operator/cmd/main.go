// Runs an operator that is laid out as kubebuilder does it: types with two versions, a controller, and webhooks.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	gardenv1 "setpoint.dev/operator/api/v1"
	gardenv1beta1 "setpoint.dev/operator/api/v1beta1"
	"setpoint.dev/operator/internal/controller"
	webhookv1 "setpoint.dev/operator/internal/webhook/v1"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	metricsAddress := flag.String("metrics-bind-address", "0", "address of the metrics")
	probeAddress := flag.String("health-probe-bind-address", "0", "address of the probes")
	leaderElect := flag.Bool("leader-elect", true, "run one active controller")
	namespace := flag.String("leader-election-namespace", "default", "namespace of the lease")
	certificates := flag.String("webhook-cert-path", "", "folder with the webhooks' certificate")
	port := flag.Int("webhook-port", 9443, "port of the webhooks")
	flag.Parse()

	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, gardenv1.AddToScheme, gardenv1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       metricsserver.Options{BindAddress: *metricsAddress},
		WebhookServer:                 webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: *port, CertDir: *certificates, CertName: "cert.pem", KeyName: "key.pem"}),
		HealthProbeBindAddress:        *probeAddress,
		LeaderElection:                *leaderElect,
		LeaderElectionID:              "operator.garden.example.com",
		LeaderElectionNamespace:       *namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	reconciler := &controller.GreenhouseReconciler{
		Client:   manager.GetClient(),
		Scheme:   manager.GetScheme(),
		Recorder: manager.GetEventRecorderFor("greenhouse-controller"),
	}
	if err := reconciler.SetupWithManager(manager); err != nil {
		return err
	}
	if err := webhookv1.SetupGreenhouseWebhookWithManager(manager); err != nil {
		return err
	}
	if err := manager.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("readyz", manager.GetWebhookServer().StartedChecker()); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
