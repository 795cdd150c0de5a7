package devcluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity of all certificates. A cluster for trying things out is younger.
const validity = 365 * 24 * time.Hour

// signingKeyBits is the size of the key that signs service account tokens.
const signingKeyBits = 2048

// authority signs every certificate of one cluster.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// pair names the files of a certificate and its key.
type pair struct{ cert, key string }

// newAuthority makes a certificate authority and writes its certificate.
func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for the certificate authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "headrace-devcluster"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority back: %w", err)
	}
	a := &authority{dir: dir, cert: cert, key: key}
	return a, writePEM(a.file("ca.crt"), "CERTIFICATE", der)
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue writes a certificate for a user and its groups, good for client and
// server on the loopback interface.
func (a *authority) issue(name, user string, groups ...string) (pair, error) {
	files := pair{cert: a.file(name + ".crt"), key: a.file(name + ".key")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return files, fmt.Errorf("make a key for %s: %w", user, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		return files, fmt.Errorf("draw a serial number for %s: %w", user, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return files, fmt.Errorf("sign the certificate of %s: %w", user, err)
	}
	if err := writePEM(files.cert, "CERTIFICATE", der); err != nil {
		return files, err
	}
	return files, writeKey(files.key, key)
}

// signingKeys writes the keys of service account tokens.
func (a *authority) signingKeys() (pair, error) {
	files := pair{cert: a.file("service-accounts.pub"), key: a.file("service-accounts.key")}
	key, err := rsa.GenerateKey(rand.Reader, signingKeyBits)
	if err != nil {
		return files, fmt.Errorf("make a key for service accounts: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return files, fmt.Errorf("write the public key of service accounts: %w", err)
	}
	if err := writePEM(files.cert, "PUBLIC KEY", public); err != nil {
		return files, err
	}
	return files, writeKey(files.key, key)
}

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("write the key %s: %w", path, err)
	}
	return writePEM(path, "PRIVATE KEY", der)
}

// writePEM writes a file that only its owner may read.
func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// identities are the files of all that takes part in a cluster.
type identities struct {
	ca      string
	server  pair // kube-apiserver and etcd
	admin   pair // the user of the kubeconfig, and the controllers
	kubelet pair // kube-apiserver when it calls kubelets
	tokens  pair
}

// newIdentities makes all keys and certificates anew, unless the directory is kept
// and those of an earlier start are there: its clients know them. Nothing in etcd
// depends on them.
func newIdentities(o *Options) (identities, error) {
	if ids, ok := kept(o.Dir); ok && o.Keep {
		return ids, nil
	}
	a, err := newAuthority(o.Dir)
	if err != nil {
		return identities{}, err
	}
	ids := identities{ca: a.file("ca.crt")}
	if ids.server, err = a.issue("server", "headrace-devcluster"); err != nil {
		return ids, err
	}
	if ids.admin, err = a.issue("admin", "headrace-admin", "system:masters"); err != nil {
		return ids, err
	}
	if ids.kubelet, err = a.issue("kubelet-client", "headrace-apiserver", "system:masters"); err != nil {
		return ids, err
	}
	ids.tokens, err = a.signingKeys()
	return ids, err
}

// kept returns the files of an earlier start, if they are complete and good for
// half as long as new ones.
func kept(dir string) (identities, bool) {
	a := authority{dir: dir}
	of := func(name string) pair { return pair{cert: a.file(name + ".crt"), key: a.file(name + ".key")} }
	ids := identities{
		ca: a.file("ca.crt"), server: of("server"), admin: of("admin"), kubelet: of("kubelet-client"),
		tokens: pair{cert: a.file("service-accounts.pub"), key: a.file("service-accounts.key")},
	}
	for _, p := range []pair{ids.server, ids.admin, ids.kubelet} {
		loaded, err := tls.LoadX509KeyPair(p.cert, p.key)
		if err != nil || time.Until(loaded.Leaf.NotAfter) < validity/2 {
			return ids, false
		}
	}
	// These are written last.
	for _, path := range []string{ids.ca, ids.tokens.cert, ids.tokens.key} {
		if _, err := os.Stat(path); err != nil {
			return ids, false
		}
	}
	return ids, true
}
