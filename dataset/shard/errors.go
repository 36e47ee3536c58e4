package shard

import (
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// Errors that callers can tell apart with [errors.Is]. What a function
// returns wraps them with the shard, the place in it and the member. They are
// the same values as in package dataset. What a server does not have is an
// [fs.ErrNotExist], what it does not hand out an [fs.ErrPermission].
var (
	// ErrEmpty: no shards, or no samples in them.
	ErrEmpty = dataset.ErrEmpty
	// ErrFormat: not a tar, a compressed one, or one that holds what is not
	// read here; a server that does not serve parts of files.
	ErrFormat = errs.ErrFormat
	// ErrTooLarge: a member or an index beyond a limit.
	ErrTooLarge = errs.ErrTooLarge
	// ErrDamaged: a shard is cut short, corrupt, or changed since it was
	// opened, or a server sent something else than it announced.
	ErrDamaged = errs.ErrDamaged
	// ErrArgument: a sample number that the set does not have, or an
	// impossible option or location.
	ErrArgument = errs.ErrArgument
	// ErrUnavailable: a server failed or stalled until the client gave up, or
	// its host is unknown.
	ErrUnavailable = dataset.ErrUnavailable
)
