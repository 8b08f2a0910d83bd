package config

import "net/url"

// Traces says where traces of requests go.
type Traces struct {
	// Endpoint is the URL that takes spans by OTLP over HTTP, such as
	// http://127.0.0.1:4318/v1/traces. Left out, nothing is traced.
	Endpoint string `yaml:"endpoint" reload:"no"`
	// Headers are sent with the spans, such as a credential.
	Headers map[string]Secret `yaml:"headers" reload:"no"`
	// Percent is how many of a hundred requests are traced, where the client has not
	// decided by a trace of its own. Left out, all are.
	Percent int `yaml:"percent" min:"1" reload:"no"`
}

func (t Traces) check(p *problems) {
	if t.Endpoint == "" {
		if len(t.Headers) > 0 || t.Percent > 0 {
			p.addf("traces.endpoint", "is missing; write the URL that takes spans, such as http://127.0.0.1:4318/v1/traces, or remove traces")
		}
		return
	}
	if u, err := url.Parse(t.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		p.addf("traces.endpoint", "is not a URL that takes spans; write one such as http://127.0.0.1:4318/v1/traces")
	}
	if t.Percent > 100 {
		p.addf("traces.percent", "%d is more than 100; use 1 to 100", t.Percent)
	}
}
