package shard_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// nginx is a real web server that serves a folder.
type nginx struct {
	plain, secure string       // URLs
	client        *http.Client // trusts the certificate
	log           string       // path of one line per request: connection, status, bytes, range
}

// startNginx starts the nginx that the machine has, with files in a temporary
// folder and ports of its own.
func startNginx(t *testing.T, root string) *nginx {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			t.Skip("nginx is not installed (apt-get install nginx-light)")
		}
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	pool := writeCertificate(t, dir)
	ports := freePorts(t, 2)
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // the folders of tests are not for others
	}
	config := fmt.Sprintf(`
%s
daemon off;
worker_processes 1;
pid %[2]s/pid;
error_log %[2]s/error.log;
events {}
http {
	log_format ranges '$connection $status $body_bytes_sent $http_range $uri';
	access_log %[2]s/access.log ranges;
	client_body_temp_path %[2]s/body;
	proxy_temp_path %[2]s/proxy;
	fastcgi_temp_path %[2]s/fastcgi;
	uwsgi_temp_path %[2]s/uwsgi;
	scgi_temp_path %[2]s/scgi;
	gzip on;
	gzip_types *;
	server {
		listen 127.0.0.1:%[3]d;
		listen 127.0.0.1:%[4]d ssl;
		ssl_certificate %[2]s/cert.pem;
		ssl_certificate_key %[2]s/key.pem;
		root %[5]s;
		location /whole/ {
			alias %[5]s/;
			max_ranges 0;
		}
		location /moved/ {
			rewrite ^/moved/(.*)$ /$1 redirect;
		}
		location /forbidden/ {
			deny all;
		}
	}
}
`, user, dir, ports[0], ports[1], root)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	cmd := exec.Command(program, "-c", path, "-p", dir)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		<-exited
	})
	for _, port := range ports {
		address := fmt.Sprintf("127.0.0.1:%d", port)
		for {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
				break
			}
			select {
			case err := <-exited:
				exited <- err
				t.Fatalf("nginx ended: %v\n%s", err, output.String())
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return &nginx{
		plain:  fmt.Sprintf("http://127.0.0.1:%d", ports[0]),
		secure: fmt.Sprintf("https://127.0.0.1:%d", ports[1]),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, MaxIdleConnsPerHost: 16}},
		log:    filepath.Join(dir, "access.log"),
	}
}

// requests returns the lines of the log from a line on.
func (n *nginx) requests(t *testing.T, from int) []string {
	t.Helper()
	content, err := os.ReadFile(n.log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(content)), "\n")[from:]
}

func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// writeCertificate makes a certificate for 127.0.0.1 that signs itself.
func writeCertificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "test"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true,

		BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return pool
}
