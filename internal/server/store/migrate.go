package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"path"
	"slices"
)

// schema holds the migrations. The n-th file in order of name leads from version n-1 to n. A file that was released is never changed.
//
//go:embed schema/*.sql
var schema embed.FS

// migrations returns the SQL of each step, in order.
func migrations() (steps []string) {
	entries, err := schema.ReadDir("schema")
	if err != nil {
		panic(err) // embedded: it can't fail in a program that was built
	}
	for _, e := range entries {
		text, err := schema.ReadFile(path.Join("schema", e.Name()))
		if err != nil {
			panic(err)
		}
		steps = append(steps, string(text))
	}
	return slices.Clip(steps)
}

// migrate brings the schema from the version that the file has to that of the last step. Each step and its version number are one
// transaction: a kill between two of them leaves a file that the next start goes on with.
func migrate(ctx context.Context, db *sql.DB, steps []string) error {
	version, err := versionOf(ctx, db)
	if err != nil {
		return err
	}
	if version > len(steps) {
		return fmt.Errorf("%w: schema version %d, this program knows %d", ErrNewer, version, len(steps))
	}
	for ; version < len(steps); version++ {
		if err := step(ctx, db, steps[version], version+1); err != nil {
			return fmt.Errorf("to schema version %d: %w", version+1, err)
		}
	}
	return nil
}

func versionOf(ctx context.Context, db *sql.DB) (version int, err error) {
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, err
}

func step(ctx context.Context, db *sql.DB, statements string, version int) error {
	return within(ctx, db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, statements); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version)) //nolint:gosec // a pragma takes no parameters, and this is our number
		return err
	})
}

// within runs do in one transaction, which is committed if do returns nil.
func within(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // without effect after a commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}
