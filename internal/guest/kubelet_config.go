package guest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// configLimit is the most of a configuration file of kubelet's that is read, in bytes. kubeadm writes about a thousand.
const configLimit = 64 << 10

// kubeletConfiguration is what we read of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1).
type kubeletConfiguration struct {
	CPUManagerPolicy    string         `json:"cpuManagerPolicy"`
	MemoryManagerPolicy string         `json:"memoryManagerPolicy"`
	SystemReserved      map[string]any `json:"systemReserved"`
	KubeReserved        map[string]any `json:"kubeReserved"`
	EvictionHard        map[string]any `json:"evictionHard"`
}

// readKubeletConfig reads the configuration file and its drop-ins, later ones over earlier ones, and then the flags, which win over all files.
func readKubeletConfig(k *capacity.KubeletConfig, files [][]byte, arguments []string) {
	var c kubeletConfiguration
	if len(files) == 0 {
		k.Unread = "there is no such file, or it can't be read"
	}
	for _, content := range files {
		if len(content) > configLimit {
			k.Unread = fmt.Sprintf("it is longer than %d KiB", configLimit>>10)
			continue
		}
		if err := yaml.Unmarshal(content, &c); err != nil { // what a file does not name stays as it was
			k.Unread = "it is not the YAML we know: " + oneLine(err.Error())
		}
	}
	overrule(&c, arguments)
	k.CPUManagerPolicy, k.MemoryManagerPolicy = oneLine(c.CPUManagerPolicy), oneLine(c.MemoryManagerPolicy)
	k.Percentages = percentages(c)
}

// overrule lets kubelet's flags win over its files.
func overrule(c *kubeletConfiguration, arguments []string) {
	for name, at := range map[string]*string{"--cpu-manager-policy": &c.CPUManagerPolicy, "--memory-manager-policy": &c.MemoryManagerPolicy} {
		if value, ok := flagValue(arguments, name); ok {
			*at = value
		}
	}
	for name, at := range map[string]*map[string]any{"--system-reserved": &c.SystemReserved, "--kube-reserved": &c.KubeReserved, "--eviction-hard": &c.EvictionHard} {
		if value, ok := flagValue(arguments, name); ok {
			*at = pairs(value)
		}
	}
}

// flagValue is the value of the last flag of that name: --name=value, or --name value.
func flagValue(arguments []string, name string) (value string, found bool) {
	for i, word := range arguments {
		if v, ok := strings.CutPrefix(word, name+"="); ok {
			value, found = v, true
		} else if word == name && i+1 < len(arguments) {
			value, found = arguments[i+1], true
		}
	}
	return value, found
}

// pairs reads "memory.available<5%,nodefs.available<10%", and "cpu=200m,memory=1Gi".
func pairs(text string) map[string]any {
	out := map[string]any{}
	for part := range strings.SplitSeq(text, ",") {
		if at := strings.IndexAny(part, "<="); at >= 0 {
			out[strings.TrimSpace(part[:at])] = strings.TrimSpace(part[at+1:])
		}
	}
	return out
}

// percentages lists what is reserved of CPU and memory in percent. The thresholds of disks are left out: they take nothing of either.
func percentages(c kubeletConfiguration) []string {
	var out []string
	for _, part := range []struct {
		name   string
		values map[string]any
	}{{"systemReserved", c.SystemReserved}, {"kubeReserved", c.KubeReserved}, {"evictionHard", c.EvictionHard}} {
		for _, key := range slices.Sorted(maps.Keys(part.values)) {
			value := fmt.Sprint(part.values[key])
			if strings.HasSuffix(value, "%") && (key == "cpu" || strings.HasPrefix(key, "memory")) {
				out = append(out, oneLine(part.name+" "+key+" "+value))
			}
		}
	}
	return out
}
