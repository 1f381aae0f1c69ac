package cloudstack

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"gopkg.in/ini.v1"
)

// profile reads a profile of CloudMonkey's configuration: the one that was named, else the file's default.
func (s Sources) profile() (layer, error) {
	path := s.configFile()
	file, err := loadProfiles(path)
	if err != nil {
		return layer{}, err
	}
	name := s.Profile
	if name == "" {
		name = strings.TrimSpace(file.Section("").Key("profile").Value())
	}
	if name == "" || !slices.Contains(profiles(file), name) {
		return layer{}, unknownProfile(path, name, s.Profile == "", profiles(file))
	}
	return profileLayer(path, name, file), nil
}

// loadProfiles reads the file. The parser's own errors quote the line in question, which may be the secret key's.
func loadProfiles(path string) (*ini.File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read CloudMonkey's profiles: %w", err)
	}
	file, err := ini.LoadSources(ini.LoadOptions{IgnoreInlineComment: true, IgnoreContinuation: true}, raw)
	if err != nil {
		return nil, fmt.Errorf("CloudMonkey's profiles in %s can't be read: each line must be [PROFILE] or NAME = VALUE", path)
	}
	return file, nil
}

// profiles are the names of the file's sections.
func profiles(file *ini.File) []string {
	return slices.DeleteFunc(file.SectionStrings(), func(name string) bool { return name == ini.DefaultSection })
}

func unknownProfile(path, name string, byDefault bool, known []string) error {
	list := "it has none"
	if len(known) > 0 {
		list = "it has " + strings.Join(known, ", ")
	}
	switch {
	case name == "":
		return fmt.Errorf("%s names no default profile, give one with --profile: %s", path, list)
	case byDefault:
		return fmt.Errorf("profile %q, the default in %s, is not in that file: %s", name, path, list)
	}
	return fmt.Errorf("profile %q is not in %s: %s", name, path, list)
}

func profileLayer(path, name string, file *ini.File) layer {
	section := file.Section(name)
	value := func(key string) string { return strings.TrimSpace(section.Key(key).Value()) }
	lacks := func(key string) string { return fmt.Sprintf("profile %q in %s has no %s", name, path, key) }
	l := layer{
		name: fmt.Sprintf("profile %q in %s", name, path),
		url:  value("url"), key: NewSecret(value("apikey")), secret: NewSecret(value("secretkey")),
		lacksURL: lacks("url"), lacksKey: lacks("apikey"), lacksSecret: lacks("secretkey"),
	}
	if value("username") != "" {
		l.lacksKey += ", but a username: trueup signs with API keys, which the user's page in CloudStack creates"
	}
	if verify, err := verifies(file, section); err != nil || !verify {
		l.refuseInsecure = fmt.Errorf("profile %q in %s has verifycert = false, but trueup always verifies the server: "+
			"give the certificate of its authority with --ca-file", name, path)
	}
	return l
}

// verifies reads verifycert of the profile, else that of the file as a whole; absent means true.
func verifies(file *ini.File, section *ini.Section) (bool, error) {
	for _, s := range []*ini.Section{section, file.Section("")} {
		if s.HasKey("verifycert") {
			return s.Key("verifycert").Bool()
		}
	}
	return true, nil
}
