package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/cks-trueup/trueup/internal/server/notice"
)

// Put implements notice.Outbox.
func (s *Store) Put(ctx context.Context, clusterID string, ends []notice.Kind, letters []notice.Letter) error {
	err := within(ctx, s.db, func(tx *sql.Tx) error {
		for _, kind := range ends {
			if _, err := tx.ExecContext(ctx, "UPDATE notices SET open = 0 WHERE cluster_id = ? AND kind = ?", clusterID, kind); err != nil {
				return err
			}
		}
		for _, l := range letters {
			const insert = `INSERT INTO notices (id, channel, key, kind, cluster_id, body, created, state, attempts, due, open)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, 1) ON CONFLICT (channel, key) WHERE open = 1 DO NOTHING`
			created := l.Created.UnixMilli()
			if _, err := tx.ExecContext(ctx, insert, l.ID, l.Channel, l.Key, l.Kind, l.ClusterID, l.Body, created, notice.Pending, created); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store: notices: %w", err)
	}
	return nil
}

// Due implements notice.Outbox.
func (s *Store) Due(ctx context.Context, channel string, now time.Time, limit int) (due []notice.Letter, next time.Time, err error) {
	err = within(ctx, s.db, func(tx *sql.Tx) error {
		if due, err = dueLetters(ctx, tx, channel, now, limit); err != nil {
			return err
		}
		var later sql.NullInt64
		const first = "SELECT min(due) FROM notices WHERE channel = ? AND state = 'pending' AND due > ?"
		if err := tx.QueryRowContext(ctx, first, channel, now.UnixMilli()).Scan(&later); err != nil {
			return err
		}
		if later.Valid {
			next = time.UnixMilli(later.Int64)
		}
		return nil
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("store: notices: %w", err)
	}
	return due, next, nil
}

func dueLetters(ctx context.Context, tx *sql.Tx, channel string, now time.Time, limit int) (due []notice.Letter, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT id, channel, key, kind, cluster_id, body, created, attempts FROM notices
		WHERE channel = ? AND state = 'pending' AND due <= ? ORDER BY created, id LIMIT ?`, channel, now.UnixMilli(), limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // nothing was written
	for rows.Next() {
		var l notice.Letter
		var created int64
		if err := rows.Scan(&l.ID, &l.Channel, &l.Key, &l.Kind, &l.ClusterID, &l.Body, &created, &l.Attempts); err != nil {
			return nil, err
		}
		l.Created = time.UnixMilli(created)
		due = append(due, l)
	}
	return due, rows.Err()
}

// Postpone implements notice.Outbox.
func (s *Store) Postpone(ctx context.Context, id string, due time.Time) error {
	if _, err := s.db.ExecContext(ctx, "UPDATE notices SET attempts = attempts + 1, due = ? WHERE id = ?", due.UnixMilli(), id); err != nil {
		return fmt.Errorf("store: notices: %w", err)
	}
	return nil
}

// Settle implements notice.Outbox.
func (s *Store) Settle(ctx context.Context, id string, state notice.State) error {
	const update = "UPDATE notices SET state = ?1, open = CASE WHEN ?1 = 'dropped' THEN 0 ELSE open END WHERE id = ?2"
	if _, err := s.db.ExecContext(ctx, update, state, id); err != nil {
		return fmt.Errorf("store: notices: %w", err)
	}
	return nil
}
