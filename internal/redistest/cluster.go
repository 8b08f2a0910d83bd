package redistest

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// StartCluster runs a cluster of n nodes without replicas, with the slots spread
// evenly.
func StartCluster(t testing.TB, n int) []*Server {
	t.Helper()
	const slots = 16384
	nodes := make([]*Server, n)
	buses := make([]string, n)
	for i := range nodes {
		_, buses[i], _ = net.SplitHostPort(freeAddr(t))
		nodes[i] = Start(t, "--cluster-enabled", "yes", "--cluster-port", buses[i], "--cluster-node-timeout", "5000")
		nodes[i].Do(fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", i*slots/n, (i+1)*slots/n-1))
		nodes[i].Do(fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", i+1))
	}
	for i, node := range nodes[1:] {
		host, port, _ := net.SplitHostPort(node.Addr)
		nodes[0].Do(fmt.Sprintf("CLUSTER MEET %s %s %s", host, port, buses[i+1]))
	}
	for _, node := range nodes {
		err := node.await("CLUSTER INFO", func(answer string) bool {
			return strings.Contains(answer, "cluster_state:ok") && strings.Contains(answer, fmt.Sprintf("cluster_known_nodes:%d\r", n))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}
