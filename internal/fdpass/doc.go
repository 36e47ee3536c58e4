// Package fdpass hands an open file to another process over a Unix socket
// (SCM_RIGHTS, unix(7)), with a message of a length that both sides know. The
// receiver gets a descriptor of its own for the same open file.
//
//	err := fdpass.Send(conn, []byte("take this"), f)
//
//	msg := make([]byte, len("take this"))
//	f, err := fdpass.Receive(conn, msg)
//
// Exactly the message is read, so that other traffic can follow on the same
// connection. Whatever a peer sends, no descriptor that came with it stays
// open unless Receive returns it.
package fdpass

import "errors"

// ErrCount: not exactly one descriptor came with the message.
var ErrCount = errors.New("not one descriptor")
