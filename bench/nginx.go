package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// nginxConfig makes nginx pass bytes on as they come, in one process, whose CPU
// time is then all of it: one core is the most that it can use. Its arguments are
// the directory for its files, the upstream's address and its own.
const nginxConfig = `daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  client_body_buffer_size 64k;
  keepalive_requests 1000000000;
  upstream replay { server %[2]s; keepalive 256; keepalive_requests 1000000000; }
  server {
    listen %[3]s;
    location / {
      proxy_pass http://replay;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`

// nginx starts nginx in front of an upstream. The error is [exec.ErrNotFound] if
// it is not installed.
func (r *rig) nginx(ctx context.Context, upstream *process) (*process, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(r.dir, "nginx-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxConfig, dir, upstream.addr, addr), 0o600); err != nil {
		return nil, err
	}
	p, err := startAt(ctx, "nginx", addr, program, "-e", "stderr", "-p", dir, "-c", file)
	if err != nil {
		return nil, err
	}
	r.running = append(r.running, p)
	return p, nil
}
