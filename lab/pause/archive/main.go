// Command archive writes a container image with one static program in it, as a docker-archive tar, to stdout.
//
//	archive PROGRAM > pause.tar
//
// The output depends on the program alone: equal input gives equal bytes.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// reference is the image's name: containerd's sandbox_image and the image of the lab's pods.
const reference = "lab.local/pause:1"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: archive PROGRAM > pause.tar")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "archive:", err)
		os.Exit(1)
	}
}

func run(program string, out io.Writer) error {
	body, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := pack(file{"pause", 0o755, body})
	if err != nil {
		return err
	}
	config, err := json.Marshal(imageConfig(layer))
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{reference}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	archive, err := pack(file{"layer.tar", 0o644, layer}, file{"config.json", 0o644, config}, file{"manifest.json", 0o644, manifest})
	if err != nil {
		return err
	}
	_, err = out.Write(archive)
	return err
}

// imageConfig is the part of an OCI image configuration that containerd needs.
func imageConfig(layer []byte) map[string]any {
	return map[string]any{
		"architecture": "amd64",
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/pause"}, "User": "65535:65535"},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	}
}

type file struct {
	name string
	mode int64
	body []byte
}

func pack(files ...file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.body))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}
