// Package devdecode makes samples of encoded pictures on the device: its
// engines decode JPEGs, a kernel crops and resizes them. Pictures that the
// device does not take are left to the caller.
package devdecode
