// Package deploy is how the gateway is installed and watched: an image, a compose
// file, a systemd unit, a Helm chart, alert rules and a dashboard. Its code is the
// tests that keep them true to the program.
package deploy
