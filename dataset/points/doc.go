// Package points reads folders of point clouds: .bin files as KITTI and nuScenes
// store them, and .pcd files.
//
//	clouds, err := points.Open(ctx, "velodyne", points.Options{Columns: 4})
//
// Importing it registers the format with [dataset.Open].
package points
