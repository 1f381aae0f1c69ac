// Command archive writes the lab's container images as a docker-archive tar to stdout: that of its pods and sandboxes, and one with busybox's tools,
// through which nodes are entered without SSH.
//
//	archive PAUSE BUSYBOX > images.tar
//
// The output depends on the programs alone: equal input gives equal bytes.
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

// The images' names. The first is containerd's sandbox_image as well.
const (
	pauseImage = "lab.local/pause:1"
	toolsImage = "lab.local/tools:1"
)

// tools are what is used of busybox.
func tools() []string { return []string{"sh", "sleep", "rm", "nsenter"} }

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: archive PAUSE BUSYBOX > images.tar")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "archive:", err)
		os.Exit(1)
	}
}

func run(pause, busybox string, out io.Writer) error {
	pauseBody, err := os.ReadFile(pause)
	if err != nil {
		return err
	}
	busyboxBody, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	toolFiles := []file{{name: "bin/busybox", mode: 0o755, body: busyboxBody}}
	for _, tool := range tools() {
		toolFiles = append(toolFiles, file{name: "bin/" + tool, mode: 0o777, link: "busybox"})
	}
	var files []file
	var manifest []map[string]any
	for _, i := range []struct {
		name, reference string
		config          map[string]any
		files           []file
	}{
		{"pause", pauseImage, map[string]any{"Entrypoint": []string{"/pause"}, "User": "65535:65535"}, []file{{name: "pause", mode: 0o755, body: pauseBody}}},
		{"tools", toolsImage, map[string]any{"Env": []string{"PATH=/bin"}, "Cmd": []string{"sh"}}, toolFiles},
	} {
		layer, err := pack(i.files...)
		if err != nil {
			return err
		}
		config, err := json.Marshal(imageConfig(layer, i.config))
		if err != nil {
			return err
		}
		files = append(files, file{name: i.name + "-layer.tar", mode: 0o644, body: layer}, file{name: i.name + "-config.json", mode: 0o644, body: config})
		manifest = append(manifest, map[string]any{"Config": i.name + "-config.json", "RepoTags": []string{i.reference}, "Layers": []string{i.name + "-layer.tar"}})
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	archive, err := pack(append(files, file{name: "manifest.json", mode: 0o644, body: text})...)
	if err != nil {
		return err
	}
	_, err = out.Write(archive)
	return err
}

// imageConfig is the part of an OCI image configuration that containerd needs.
func imageConfig(layer []byte, config map[string]any) map[string]any {
	return map[string]any{
		"architecture": "amd64",
		"os":           "linux",
		"config":       config,
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	}
}

type file struct {
	name string
	mode int64
	body []byte
	link string // of a symbolic link: where it leads
}

func pack(files ...file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.body))}
		if f.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}
