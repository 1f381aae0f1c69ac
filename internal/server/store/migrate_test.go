package store

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/server/notice"
)

// raw opens a database file without anything of ours.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// old makes a store as an older version of the program left it.
func old(t *testing.T, version int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("v%d.sql", version)))
	if err != nil {
		t.Fatalf("every schema version keeps a file that shows what it left behind: %v", err)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	db := raw(t, path)
	if _, err := db.Exec(string(text)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

var space = regexp.MustCompile(`(--[^\n]*)?\s+`)

// shape is the schema as SQLite keeps it, without comments and white space.
func shape(t *testing.T, db *sql.DB) (objects []string) {
	t.Helper()
	rows, err := db.Query("SELECT type || ' ' || name || ': ' || sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type, name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var object string
		if err := rows.Scan(&object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, space.ReplaceAllString(object, " "))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return objects
}

// A step that was released must go on to make what it made: a store of that version looks so on somebody's disk.
func TestStepsMakeWhatTheyMade(t *testing.T) {
	for version := 1; version <= len(migrations()); version++ {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			db := raw(t, filepath.Join(t.TempDir(), "fresh.db"))
			if err := migrate(t.Context(), db, migrations()[:version]); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(shape(t, raw(t, old(t, version))), shape(t, db)); diff != "" {
				t.Errorf("schema (-kept +made now):\n%s", diff)
			}
		})
	}
}

func TestMigrateFromEachVersion(t *testing.T) {
	fresh := raw(t, filepath.Join(t.TempDir(), "fresh.db"))
	if err := migrate(t.Context(), fresh, migrations()); err != nil {
		t.Fatal(err)
	}
	for version := 1; version <= len(migrations()); version++ {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			path := old(t, version)
			s := opened(t, path, Options{})
			if diff := cmp.Diff(shape(t, fresh), shape(t, s.db)); diff != "" {
				t.Errorf("schema (-fresh +migrated):\n%s", diff)
			}
			entries, bad, err := s.History(t.Context(), Query{})
			if err != nil || bad != 0 || len(entries) != 1 || entries[0].Run != "run-old" || entries[0].Actor != "serve@host" {
				t.Errorf("history %+v, %d unreadable, %v", entries, bad, err)
			}
			records, err := s.Audits(t.Context(), Query{})
			if err != nil || len(records) != 1 || records[0].Detail != "guest of prod-node-1 lags" || !records[0].Time.Equal(time.UnixMilli(1796094000000)) {
				t.Errorf("audit %+v, %v", records, err)
			}
			due, _, err := s.Due(t.Context(), "ops", time.UnixMilli(1796094000000), 10)
			if want := min(1, version/2); err != nil || len(due) != want {
				t.Errorf("%d letters due, %v; want %d", len(due), err, want)
			}
			for _, l := range due {
				want := notice.Letter{ID: "letter-old", Channel: "ops", Key: "a key", Kind: notice.Drift, ClusterID: "c1",
					Body: []byte(`{"v":1,"kind":"drift","clusterID":"c1"}`), Created: time.UnixMilli(1796094000000), Attempts: 3}
				if diff := cmp.Diff(want, l); diff != "" {
					t.Errorf("letter (-want +got):\n%s", diff)
				}
			}
			if err := s.Append(t.Context(), entry("run-new")); err != nil {
				t.Errorf("after the migration: %v", err)
			}
		})
	}
}

// A step that fails leaves the version before it, whole.
func TestStepIsAllOrNothing(t *testing.T) {
	db := raw(t, filepath.Join(t.TempDir(), "store.db"))
	steps := []string{"CREATE TABLE a (x)", "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)"}
	if err := migrate(t.Context(), db, steps); err == nil {
		t.Fatal("a broken step was taken for done")
	}
	version, err := versionOf(t.Context(), db)
	if got := strings.Join(shape(t, db), ";"); err != nil || version != 1 || got != "table a: CREATE TABLE a (x)" {
		t.Errorf("version %d, %v, schema %s; want version 1 with table a alone", version, err, got)
	}
}

func TestNewerIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db := raw(t, path)
	if _, err := db.Exec("CREATE TABLE of_the_future (x); PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	before := shape(t, db)
	if _, err := Open(t.Context(), path, Options{}); !errors.Is(err, ErrNewer) {
		t.Fatalf("got %v, want ErrNewer", err)
	}
	if diff := cmp.Diff(before, shape(t, db)); diff != "" {
		t.Errorf("the newer store was changed (-before +after):\n%s", diff)
	}
}
