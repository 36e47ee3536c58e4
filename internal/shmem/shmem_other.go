//go:build !linux && !darwin

package shmem

import (
	"errors"
	"os"
)

// CreateAnonymous is for Linux only.
func CreateAnonymous(string, int64) (*os.File, error) { return nil, errors.ErrUnsupported }

// Create is for Linux and macOS only.
func Create(string, int64) (*Draft, error) { return nil, errors.ErrUnsupported }

// Duplicate is for Linux and macOS only.
func Duplicate(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

// Map is for Linux and macOS only.
func Map(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

// Populate is for Linux and macOS only.
func Populate(*os.File, []byte, int) error { return errors.ErrUnsupported }

// Lock is for Linux and macOS only.
func Lock(*os.File) (unlock func(), err error) { return nil, errors.ErrUnsupported }

// Close closes f.
func Close(f *os.File) error { return f.Close() }

func link(*os.File, string) error { return errors.ErrUnsupported }
