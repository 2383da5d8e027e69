package telemetry

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// Swept records one round of looking after media jobs: for how many it did what, by the task's name; err is why it could not
// look for them. A round that found nothing to do is told at the level debug.
func (r *Recorder) Swept(did map[string]int, took time.Duration, err error) {
	level := slog.LevelDebug
	attrs := make([]slog.Attr, 0, len(did))
	for _, task := range slices.Sorted(maps.Keys(did)) {
		attrs = append(attrs, slog.Int(task, did[task]))
		level = slog.LevelInfo
	}
	all := []slog.Attr{slog.Float64(KeyDurationMS, millis(took)), {Key: KeyDone, Value: slog.GroupValue(attrs...)}}
	if err != nil {
		level = slog.LevelError
		all = append(all, slog.String(KeyStoreError, err.Error()))
	}
	r.log.LogAttrs(context.Background(), level, "sweep_finished", all...)
}
