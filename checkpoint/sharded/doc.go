// Package sharded keeps in one folder what several ranks have parts of. Each rank writes a
// file of its parts, and any number of ranks reads again what it needs.
//
//	pieces := []sharded.Piece{{Name: "w", Type: safetensors.F32, Shape: []int64{1000, 64}, From: from, N: n, Read: t.Read}}
//	err := sharded.Save(ctx, "run/state", comm, pieces, sharded.SaveOptions{Meta: map[string]string{"step": "100"}})
//
//	ck, err := sharded.Open("run/state")
//	defer ck.Close()
//	err = ck.Read(ctx, "w", from, data)
//	err = ck.Merge(ctx, "model.safetensors") // whole values, for other programs
//
// Elements are counted in the whole value, row by row, so pieces are ranges of numbers, of all
// of it or of each row alike (Piece.Row), and who reads has nothing to do with how it was cut:
// [Checkpoint.ReadPiece] reads columns of what was saved by rows, too. All ranks need the same
// folder: on several machines, one of a file system that they share.
//
// # The folder
//
// A file of a rank is a .safetensors file, whose tensors are pieces: vectors, or matrices of a
// part of each row, but for those that are whole values. Its metadata say what of which value
// each is. The index, [IndexName], names the files. It is written when all files are there and
// durable, and takes the place of the one before. So a save that fails, or a process that is killed,
// leaves the folder as it was, or with the new save, and besides with files that a later save
// removes. Other files in the folder stay.
package sharded
