package notice

import (
	"fmt"
	"os"
	"strings"
)

// Secret reads a secret where it is kept, each time that it is used: so it can be changed without a restart, and there is nothing in memory
// to print by mistake. Its errors name the place only.
type Secret func() (string, error)

// longestSecret bounds a secret's file, in bytes: a wrong path shall not read a disk.
const longestSecret = 64 << 10

// FromFile reads a secret from a file, without white space around it.
func FromFile(path string) Secret {
	return func() (string, error) {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		if !info.Mode().IsRegular() || info.Size() > longestSecret {
			return "", fmt.Errorf("%s is no file with a secret: expected a regular file of at most %d bytes", path, longestSecret)
		}
		text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
		if err != nil {
			return "", err
		}
		return filled(string(text), "file "+path)
	}
}

// FromEnv reads a secret from an environment variable.
func FromEnv(lookup func(string) (string, bool), name string) Secret {
	return func() (string, error) {
		text, _ := lookup(name)
		return filled(text, "environment variable "+name)
	}
}

func filled(text, place string) (string, error) {
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("%s is empty", place)
	}
	return text, nil
}
