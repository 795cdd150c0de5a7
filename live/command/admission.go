package command

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"

	"github.com/headrace-dev/headrace/live/admission"
)

// admitting says whether and where the admission webhook is served. Every instance
// serves it, leading or not.
type admitting struct{ address, cert, key string }

func (a *admitting) flags(f *pflag.FlagSet) {
	f.StringVar(&a.address, "admission", "", "serve the admission webhook, which turns shares of GPUs asked for by annotation into claims, at this address, as :9443 (empty: not at all)")
	f.StringVar(&a.cert, "admission-tls-cert", "", "the file of its certificate; it is read again when it was renewed")
	f.StringVar(&a.key, "admission-tls-key", "", "the file of the key of its certificate")
}

// check names the first flag that cannot be.
func (a *admitting) check() error {
	if a.address != "" && (a.cert == "" || a.key == "") {
		return errors.New("--admission needs --admission-tls-cert and --admission-tls-key")
	}
	return nil
}

// start serves until the context ends; cancel ends it when serving fails.
func (a *admitting) start(ctx context.Context, client kubernetes.Interface, log *slog.Logger, cancel context.CancelCauseFunc) {
	if a.address == "" {
		return
	}
	s := admission.Server{Client: client, Log: log}
	// Ends with ctx, or with a failure, which ends ctx.
	go func() {
		if err := s.Run(ctx, a.address, a.cert, a.key); err != nil {
			cancel(err)
		}
	}()
}
