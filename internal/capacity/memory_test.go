package capacity

import (
	"fmt"
	"testing"
)

const (
	kB  int64 = 1024
	GiB       = 1024 * MiB
)

// guestWith is a guest in boot "b" with whole 128 MiB blocks online.
func guestWith(online, memTotal int64) Guest {
	return Guest{BootID: "b", BlockSize: 128 * MiB, BlocksOnline: int(online / (128 * MiB)), MemTotal: memTotal}
}

func offering(mib int64) Offering { return Offering{ID: "o", Name: "o", CPUs: 1, MemoryMiB: mib} }

// booted are MemTotals in kB of guests that were booted with the given memory, measured on real kernels.
var booted = []struct {
	kernel   string
	gib      int64
	memTotal int64
}{
	{"Debian 12", 1, 995364}, {"Debian 12", 2, 2026020}, {"Debian 12", 4, 4021020}, {"Debian 12", 6, 6079264},
	{"Debian 12", 8, 8143640}, {"Debian 12", 16, 16388884}, {"Debian 12", 32, 32879376}, {"Debian 12", 64, 65860348},
	{"Ubuntu 24.04", 2, 2013836}, {"Ubuntu 24.04", 4, 4008848}, {"Ubuntu 24.04", 8, 8131472},
	{"Ubuntu 24.04", 16, 16376716}, {"Ubuntu 24.04", 32, 32867200}, {"Ubuntu 24.04", 64, 65848160},
	{"Ubuntu 24.04 with a hot-plug range", 2, 1947532},
	{"Debian 12, no slots", 1, 995856}, {"Debian 12, no slots", 2, 2026512}, {"Debian 12, no slots", 4, 4021512}, {"Debian 12, no slots", 8, 8144120},
	{"Debian 12 with slots", 1, 929552}, {"Debian 12 with slots", 2, 1960208}, {"Debian 12 with slots", 4, 4021520}, {"Debian 12 with slots", 8, 8144120},
	{"Ubuntu 24.04, crashkernel=512M", 16, 16376716 - 524296},
	{"k3s node in the field", 4, 3814 * 1024}, {"k3s node in the field", 8, 7751 * 1024},
}

func TestMemTotalOfBootedGuestsIsPlausible(t *testing.T) {
	for _, r := range booted {
		t.Run(fmt.Sprintf("%s/%dGiB", r.kernel, r.gib), func(t *testing.T) {
			if c := CheckMemTotal(nil, guestWith(r.gib*GiB, r.memTotal*kB), offering(r.gib*1024)); !c.OK {
				t.Error(c)
			}
		})
	}
}

// A fixed "2 % or 128 MiB" would refuse plain guests: if it ever passes all of them, the measured rows are not the measured rows.
func TestFixedToleranceWouldBeWrong(t *testing.T) {
	const plain = 4 * GiB
	measured := int64(4021020) * kB // booted Debian 12 without anything special
	if plain-measured <= max(plain*2/100, 128*MiB) {
		t.Fatal("the measured guest lies within 2 % or 128 MiB")
	}
	if c := CheckMemTotal(nil, guestWith(plain, measured), offering(4096)); !c.OK {
		t.Error(c)
	}
}

// hotplugged are measured growths of MemTotal within one boot, in kB.
func TestMemTotalGrowsWithHotplug(t *testing.T) {
	rows := []struct {
		name           string
		from, to       int64 // GiB
		before, after  int64 // kB
		newBoot, wrong bool
	}{
		{name: "1 to 2 GiB", from: 1, to: 2, before: 929552, after: 1978116},
		{name: "1 to 2 GiB, as measured from 1 GiB with slots", from: 1, to: 2, before: 1978116 - 1048576, after: 1978116},
		{name: "1 to 4 GiB", from: 1, to: 4, before: 4075268 - 3*1048576, after: 4075268},
		{name: "1 to 8 GiB", from: 1, to: 8, before: 8269572 - 7*1048576, after: 8269572},
		{name: "4 to 8 GiB", from: 4, to: 8, before: 8213860 - 4194304, after: 8213860},
		{name: "4 to 8 GiB with memmap_on_memory", from: 4, to: 8, before: 4008840, after: 4008840 + 4128768},
		{name: "balloon inflated by 2 GiB before and after a DIMM of 2 GiB", from: 4, to: 6, before: 4008840 - 2097152, after: 4008840},
		{name: "no growth of memory: CPUs only", from: 4, to: 4, before: 4021020, after: 4021020},
		{name: "rebooted at the new size", from: 4, to: 8, before: 4021020, after: 8143640, newBoot: true},
		{name: "booted figure, but the boot is the same", from: 4, to: 8, before: 8213860 - 4194304, after: 8143640, wrong: true},
		{name: "blocks online, nothing in MemTotal", from: 4, to: 8, before: 4021020, after: 4021020, wrong: true},
		{name: "half of it inflated away", from: 4, to: 8, before: 4021020, after: 4021020 + 2097152, wrong: true},
		{name: "grew by more than was plugged", from: 4, to: 8, before: 4021020, after: 4021020 + 2*4194304, wrong: true},
		{name: "rebooted with an inflated balloon", from: 4, to: 8, before: 4021020, after: 8143640 - 2097152, newBoot: true, wrong: true},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			before, after := guestWith(r.from*GiB, r.before*kB), guestWith(r.to*GiB, r.after*kB)
			if r.newBoot {
				after.BootID = "b2"
			}
			if c := CheckMemTotal(&before, after, offering(r.to*1024)); c.OK == r.wrong {
				t.Errorf("OK=%t: expected %s, observed %s", c.OK, c.Expected, c.Observed)
			}
		})
	}
}

func TestMemTotalBorders(t *testing.T) {
	before := guestWith(4*GiB, 4021020*kB)
	reboot := before
	reboot.BootID = "earlier"
	rows := []struct {
		name      string
		before    *Guest
		goal      int64 // MiB
		low, high int64 // the least and the most that pass, in bytes
	}{
		{"growth of 4 GiB", &before, 8192, 4021020*kB + 4*GiB - 4*GiB/64 - 4*MiB, 4021020*kB + 4*GiB + 4*MiB},
		{"no growth", &before, 4096, 4021020*kB - 4*MiB, 4021020*kB + 4*MiB},
		{"no reading before, small: 512 MiB may lack", nil, 4096, 4*GiB - 512*MiB, 4 * GiB},
		{"no reading before, 6400 MiB: both bounds meet", nil, 6400, 6400*MiB - 512*MiB, 6400 * MiB},
		{"no reading before, big: 8 % may lack", nil, 65536, 64*GiB - 64*GiB*8/100, 64 * GiB},
		{"the reading before is of another boot", &reboot, 8192, 8*GiB - 8*GiB*8/100, 8 * GiB},
		{"very small: nothing is not something", nil, 512, 1, 512 * MiB},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			for memTotal, want := range map[int64]bool{r.low - 1: false, r.low: true, r.high: true, r.high + 1: false} {
				if c := CheckMemTotal(r.before, guestWith(r.goal*MiB, memTotal), offering(r.goal)); c.OK != want {
					t.Errorf("MemTotal %d: OK=%t, want %t", memTotal, c.OK, want)
				}
			}
		})
	}
}

// An offering of 2000 MiB boots with a block that is filled in part; what is plugged later comes in whole blocks.
func TestMemTotalWhereTheBootMemoryIsNoMultipleOfTheBlock(t *testing.T) {
	before := guestWith(2048*MiB, 1900*MiB)
	after := guestWith(4096*MiB, 3948*MiB)
	if c := CheckGuestBlocks(after, offering(4048)); !c.OK {
		t.Error(c)
	}
	if c := CheckMemTotal(&before, after, offering(4048)); !c.OK {
		t.Error(c)
	}
}

func TestGuestBlocks(t *testing.T) {
	big := Guest{BlockSize: 2 * GiB, BlocksOnline: 33}
	rows := []struct {
		name  string
		guest Guest
		goal  int64
		ok    bool
		says  string
	}{
		{"exact", guestWith(4*GiB, 0), 4096, true, "32 x 128 MiB online"},
		{"one short", guestWith(4*GiB-128*MiB, 0), 4096, false, "31 x 128 MiB online"},
		{"one too many", guestWith(4*GiB+128*MiB, 0), 4096, false, "33 x 128 MiB online"},
		{"plugged but offline", Guest{BlockSize: 128 * MiB, BlocksOnline: 16, BlocksOffline: 16}, 4096, false, "16 x 128 MiB online, 16 plugged but offline"},
		{"filled in part at boot", guestWith(2048*MiB, 0), 2000, true, "16 x 128 MiB online"},
		{"blocks of 2 GiB", big, 66 * 1024, true, "33 x 2048 MiB online"},
		{"blocks of 2 GiB, one missing", big, 68 * 1024, false, "33 x 2048 MiB online"},
		{"not read", Guest{}, 4096, false, "none"},
		{"no goal", guestWith(0, 0), 0, false, "0 x 128 MiB online"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			c := CheckGuestBlocks(r.guest, offering(r.goal))
			if c.OK != r.ok || c.Observed != r.says || c.Layer != LayerGuest {
				t.Errorf("got %t %q in %s, want %t %q", c.OK, c.Observed, c.Layer, r.ok, r.says)
			}
		})
	}
}

func TestExcess(t *testing.T) {
	o := Offering{CPUs: 4, MemoryMiB: 4000}
	full := Guest{CPUsOnline: 4, CPUsPresent: 4, BlockSize: 128 * MiB, BlocksOnline: 32}
	rows := []struct {
		name   string
		change func(*Guest)
		want   bool
	}{
		{"exact, the last block filled in part", func(*Guest) {}, false},
		{"less online", func(g *Guest) { g.CPUsOnline, g.BlocksOnline, g.BlocksOffline = 2, 16, 16 }, false},
		{"a CPU too many, offline", func(g *Guest) { g.CPUsPresent = 5 }, true},
		{"a CPU too many, online", func(g *Guest) { g.CPUsPresent, g.CPUsOnline = 5, 5 }, true},
		{"a block too many, offline", func(g *Guest) { g.BlocksOffline = 1 }, true},
		{"a block too many, online", func(g *Guest) { g.BlocksOnline++ }, true},
		{"block size unknown", func(g *Guest) { g.BlockSize = 0 }, false},
	}
	for _, r := range rows {
		g := full
		r.change(&g)
		if got := g.Excess(o); got != r.want {
			t.Errorf("%s: got %t", r.name, got)
		}
	}
}
