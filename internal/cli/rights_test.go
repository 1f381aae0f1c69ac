package cli

import (
	"testing"

	"github.com/cks-trueup/trueup/internal/guest"
)

// The rights are printed without any configuration, and without any connection.
func bare(p *program) { p.env = map[string]string{} }

func TestRightsSudoers(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		for args, user := range map[string]string{"rights sudoers": "cloud", "rights sudoers --user trueup": "trueup"} {
			want, err := guest.Sudoers(user, "1.2.3")
			if err != nil {
				t.Fatal(err)
			}
			if got := s.trueup(t, args, bare).want(t, ExitOK).out.String(); got != want {
				t.Errorf("%q prints:\n%s", args, got)
			}
		}
		s.trueup(t, "rights sudoers --user root", bare).want(t, ExitUsage).says(t, "--user: user root needs no sudo").oneError(t)
		s.trueup(t, "rights sudoers --user ALL", bare).want(t, ExitUsage).says(t, `"ALL" is not a login name`).oneError(t)
		s.trueup(t, "rights sudoers all", bare).want(t, ExitUsage).oneError(t)
		s.trueup(t, "rights sodoers", bare).want(t, ExitUsage).oneError(t)
		s.trueup(t, "rights", bare).want(t, ExitOK).prints(t, "sudoers")
		if got := s.Requests(); len(got) > 0 {
			t.Errorf("requests: %v", got)
		}
	})
}
