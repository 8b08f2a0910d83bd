package main

import "testing"

// TestBenchmarkRate reads what redis-benchmark prints.
func TestBenchmarkRate(t *testing.T) {
	t.Parallel()
	const out = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"12345.68\",\"0.031\"\n"
	if rate, err := benchmarkRate(out, "SET"); err != nil || rate != 12345.68 {
		t.Errorf("%v, %v", rate, err)
	}
	for _, bad := range []string{"", "Could not connect to Redis", "\"SET\",\"nan, please\"\n"} {
		if rate, err := benchmarkRate(bad, "SET"); err == nil {
			t.Errorf("%q gives %v", bad, rate)
		}
	}
}
