package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/cks-trueup/trueup/internal/history"
)

// Audit is one thing that the server decided or was told: that it started, read its configuration, began to heal, left a cluster alone.
// It holds no secret.
type Audit struct {
	Time      time.Time `json:"time"`
	Actor     string    `json:"actor"`
	Action    string    `json:"action"`
	ClusterID string    `json:"clusterID,omitempty"`
	Cluster   string    `json:"cluster,omitempty"`
	Run       string    `json:"run,omitempty"`
	Detail    string    `json:"detail,omitempty"`
}

// Query chooses records. Zero fields choose all.
type Query struct {
	Cluster string // name or id
	Run     string
	Since   time.Time
	// Limit returns the newest so many.
	Limit int
}

// Append adds an entry to the history and returns once it has been given to the disk.
func (s *Store) Append(ctx context.Context, e history.Entry) error {
	line, err := history.Encode(e)
	if err != nil {
		return err
	}
	const insert = "INSERT INTO history (time, cluster_id, cluster, run, entry) VALUES (?, ?, ?, ?, ?)"
	if _, err := s.db.ExecContext(ctx, insert, e.Time.UnixMilli(), e.ClusterID, e.Cluster, e.Run, string(line)); err != nil {
		return fmt.Errorf("store: history: %w", err)
	}
	return nil
}

// History returns the chosen entries, oldest first, and how many could not be read: those that a newer version has written.
func (s *Store) History(ctx context.Context, q Query) (entries []history.Entry, unreadable int, err error) {
	err = s.newest(ctx, "entry", "history", q, func(rows *sql.Rows) error {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		if e, err := history.Decode([]byte(line)); err != nil {
			unreadable++
		} else {
			entries = append(entries, e)
		}
		return nil
	})
	slices.Reverse(entries)
	return entries, unreadable, err
}

// Audit adds a record and returns once it has been given to the disk.
func (s *Store) Audit(ctx context.Context, a Audit) error {
	const insert = "INSERT INTO audit (time, actor, action, cluster_id, cluster, run, detail) VALUES (?, ?, ?, ?, ?, ?, ?)"
	if _, err := s.db.ExecContext(ctx, insert, a.Time.UnixMilli(), a.Actor, a.Action, a.ClusterID, a.Cluster, a.Run, a.Detail); err != nil {
		return fmt.Errorf("store: audit: %w", err)
	}
	return nil
}

// Audits returns the chosen records, oldest first.
func (s *Store) Audits(ctx context.Context, q Query) (records []Audit, err error) {
	err = s.newest(ctx, "time, actor, action, cluster_id, cluster, run, detail", "audit", q, func(rows *sql.Rows) error {
		var a Audit
		var ms int64
		if err := rows.Scan(&ms, &a.Actor, &a.Action, &a.ClusterID, &a.Cluster, &a.Run, &a.Detail); err != nil {
			return err
		}
		a.Time = time.UnixMilli(ms).UTC()
		records = append(records, a)
		return nil
	})
	slices.Reverse(records)
	return records, err
}

// newest reads rows of a table, newest first.
func (s *Store) newest(ctx context.Context, columns, table string, q Query, each func(*sql.Rows) error) error {
	limit := q.Limit
	if limit <= 0 {
		limit = -1 // SQLite's word for none
	}
	since := int64(0)
	if !q.Since.IsZero() {
		since = q.Since.UnixMilli()
	}
	//nolint:gosec // columns and table are constants of this file
	rows, err := s.db.QueryContext(ctx, "SELECT "+columns+" FROM "+table+` WHERE time >= ?1 AND (?2 = '' OR cluster_id = ?2 OR cluster = ?2)
		AND (?3 = '' OR run = ?3) ORDER BY id DESC LIMIT ?4`, since, q.Cluster, q.Run, limit)
	if err != nil {
		return fmt.Errorf("store: %s: %w", table, err)
	}
	defer func() { _ = rows.Close() }() // nothing was written
	for rows.Next() {
		if err := each(rows); err != nil {
			return fmt.Errorf("store: %s: %w", table, err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("store: %s: %w", table, err)
	}
	return nil
}
