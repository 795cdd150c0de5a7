package command

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
)

// reviewsPerSecond bounds what strangers can make the API server do, after a
// burst.
const reviewsPerSecond, reviewsBurst = 10, 50

// guard lets a request through when it comes from the loopback interface (from
// this machine, from this pod, or through a tunnel that the API server opened for
// one who may), when it asks for health or readiness, or when it brings a token
// that the API server knows and whose owner may get the path.
func guard(client kubernetes.Interface, log *slog.Logger, next http.Handler) http.Handler {
	limit := flowcontrol.NewTokenBucketRateLimiter(reviewsPerSecond, reviewsBurst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		if loopback(host) || r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			next.ServeHTTP(w, r)
			return
		}
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case !ok || token == "":
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token of the cluster is needed", http.StatusUnauthorized)
			return
		case !limit.TryAccept():
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		status, err := review(r.Context(), client, token, r.URL.Path)
		if err != nil {
			log.Warn("a request was not judged", "path", r.URL.Path, "because", err)
		}
		if status != http.StatusOK {
			http.Error(w, strings.ToLower(http.StatusText(status)), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// review asks the API server whose a token is and whether its owner may get the
// path, as a non-resource URL.
func review(ctx context.Context, client kubernetes.Interface, token, path string) (int, error) {
	who, err := client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("review a token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := &who.Status.User
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: make(map[string]authorizationv1.ExtraValue),
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}
	for key, values := range user.Extra { // order: a map is filled
		spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusServiceUnavailable, fmt.Errorf("review the access of %s: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
