// Package nifti reads NIfTI-1 and NIfTI-2 volumes, compressed or not: the volumes
// of a file, or a folder of files with one volume each.
//
//	scans, err := nifti.OpenFolder(ctx, "scans", nifti.Options{Size: []int{96, 96, 96}})
//
// A [Volume] is a file that need not fit into memory: it is read in rows of its slowest axis,
// and a [Writer] writes results over it into a file that lies in the same place in space.
// They are source and sink of package window:
//
//	scan, err := nifti.OpenVolume("scan.nii.gz")
//	labels, err := scan.Create("labels.nii.gz", 1, dtype.U8)
//	defer labels.Discard()
//	err = plan.Run(ctx, scan.Channels(), scan, predict, plan.Labels(labels))
//	err = labels.Commit()
//
// Importing it registers the format with [dataset.Open].
package nifti
