package config

import "slices"

// later are the keys of the file that this build does not have yet, "*" standing
// for a name that the user chose. Their meaning is settled; so a file that uses
// one is refused, where ignoring it would promise what is not done. At present there
// are none.
var later []string

func notInBuild(shape string) bool { return slices.Contains(later, shape) }

// similar reports whether a key is one mistake away from a known one: a letter
// more, less or other, or two swapped.
func similar(key, known string) bool {
	if len(key) > len(known) {
		key, known = known, key
	}
	i := 0
	for i < len(key) && key[i] == known[i] {
		i++
	}
	switch len(known) - len(key) {
	case 0:
		return key[min(i+1, len(key)):] == known[min(i+1, len(key)):] ||
			i+1 < len(key) && key[i] == known[i+1] && key[i+1] == known[i] && key[i+2:] == known[i+2:]
	case 1:
		return key[i:] == known[i+1:]
	}
	return false
}
