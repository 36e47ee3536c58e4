// Package nifti reads NIfTI-1 and NIfTI-2 volumes, compressed or not: the volumes
// of a file, or a folder of files with one volume each.
//
//	scans, err := nifti.OpenFolder(ctx, "scans", nifti.Options{Size: []int{96, 96, 96}})
//
// Importing it registers the format with [dataset.Open].
package nifti
