package cudnn

// Limit has plans need no more workspace than that, in bytes.
func (l *Library) Limit(most int64) { l.most = most }
