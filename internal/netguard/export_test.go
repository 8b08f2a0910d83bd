package netguard

import (
	"context"
	"net"
	"net/netip"
)

// StopBeforeConnect makes g return err in place of every connection that it would
// make.
func StopBeforeConnect(g *Guard, err error) {
	g.dial = func(context.Context, *net.Dialer, string, netip.AddrPort) (net.Conn, error) { return nil, err }
}

// CheckSocket is what sockets ask right before they connect.
func CheckSocket(g *Guard, host, address string) error { return g.checkSocket(host, address) }
