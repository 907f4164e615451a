// Runs cert-manager's own controllers, unchanged, those that issue and renew certificates of self-signed and CA issuers.
// The others need kinds that only a cluster has, for example Ingress and Pod.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/metrics"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/metrics"
)

const workers = 5

var (
	metricsAddress = flag.String("metrics-listen-address", "", "address of the metrics; none without")
	namespace      = flag.String("namespace", "default", "namespace of the lease, and of the Secrets of ClusterIssuers")
	leaseDuration  = flag.Duration("leader-election-lease-duration", 15*time.Second, "time after which another instance takes over")
)

func main() {
	klog.InitFlags(nil)
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(logr.NewContext(ctx, klog.Background())); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	options := controller.ContextOptions{
		Kubeconfig:         os.Getenv("KUBECONFIG"),
		KubernetesAPIQPS:   100,
		KubernetesAPIBurst: 200,
		Clock:              clock.RealClock{},
		Metrics:            metrics.New(logf.FromContext(ctx), clock.RealClock{}),
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: *namespace},
		CertificateOptions: controller.CertificateOptions{
			// Secrets go with their Certificates.
			EnableOwnerRef:           true,
			CopiedAnnotationPrefixes: []string{"*", "-kubectl.kubernetes.io/"},
		},
	}
	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return err
	}
	if *metricsAddress != "" {
		if err := serveMetrics(ctx, group, options.Metrics); err != nil {
			return err
		}
	}
	elected := make(chan struct{})
	group.Go(func() error { return elect(ctx, factory, elected) })
	select {
	case <-ctx.Done():
		return group.Wait()
	case <-elected:
	}
	for name, construct := range controller.Known() {
		each, err := construct(factory)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		group.Go(func() error { return each.Run(workers, ctx) })
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	fmt.Fprintln(os.Stderr, "controllers started")
	return group.Wait()
}

// elect closes elected once this instance leads. It returns when the context ends, or with an error if the lease is lost.
func elect(ctx context.Context, factory *controller.ContextFactory, elected chan<- struct{}) error {
	own, err := factory.Build("leader-election")
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	lock, err := resourcelock.New(
		resourcelock.LeasesResourceLock, *namespace, "cert-manager-controller",
		own.Client.CoreV1(), own.Client.CoordinationV1(),
		resourcelock.ResourceLockConfig{
			Identity:      fmt.Sprintf("%s-%d-cert-manager-controller", host, os.Getpid()),
			EventRecorder: own.Recorder,
		},
	)
	if err != nil {
		return err
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   *leaseDuration,
		RenewDeadline:   *leaseDuration * 2 / 3,
		RetryPeriod:     *leaseDuration / 8,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(elected) },
			OnStoppedLeading: func() {},
		},
	})
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("leader election lost")
}

func serveMetrics(ctx context.Context, group *errgroup.Group, all *metrics.Metrics) error {
	listener, err := net.Listen("tcp", *metricsAddress)
	if err != nil {
		return err
	}
	server := all.NewServer(listener)
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
	group.Go(func() error {
		_ = server.Serve(listener)
		return nil
	})
	return nil
}
