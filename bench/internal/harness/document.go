package harness

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
)

// Head is how a document begins: in the form of a peer's file (see
// bench/README.md), with more keys.
type Head struct {
	Peer string `json:"peer"`
	What string `json:"what"` // the rows are about
	provenance.Record
	Repeats int `json:"repeats"` // of each row
}

// NewHead is the head of a document about dev, of what is measured now.
func NewHead(dev device.Device, what string, repeats int) Head {
	return Head{
		Peer:    "Pinion",
		What:    what,
		Record:  provenance.Now().On(dev.Info().ID, dev.Info().Name),
		Repeats: repeats,
	}
}

// Document is what a program prints: rows of type R, which embeds
// [measure.Row] or is one.
type Document[R any] struct {
	Head
	Rows         []R            `json:"rows"`
	NotAvailable []NotAvailable `json:"not_available"`
}

// NewDocument is a document without rows, with the head of [NewHead].
func NewDocument[R any](dev device.Device, what string, repeats int) Document[R] {
	return Document[R]{Head: NewHead(dev, what, repeats), Rows: []R{}, NotAvailable: []NotAvailable{}}
}

// Skip says that a row, or a group of rows, cannot be had here.
func (d *Document[R]) Skip(name string, why error) {
	d.NotAvailable = append(d.NotAvailable, NotAvailable{Name: name, Reason: why.Error()})
}

// NotAvailable is a row, or a group of rows, that this device or machine cannot
// have.
type NotAvailable struct {
	Name   string `json:"name"`
	By     string `json:"by,omitempty"` // as in a row
	Reason string `json:"reason"`
}

// Run opens the device of that name, has measure make a document about it, and
// prints the document to w. After an error nothing is printed.
func Run(name string, w io.Writer, measure func(device.Device) (any, error)) (err error) {
	dev, err := device.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	d, err := measure(dev)
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}
