package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// ticksPerSecond is the unit of CPU times in /proc. The kernel offers it to
// programs as a constant on every architecture that Go runs on.
const ticksPerSecond = 100

// cpuTime returns the CPU time that a process has used, in user and in kernel
// mode, from all its threads. It has a resolution of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(stat)
}

// parseStat finds utime and stime, fields 14 and 15 of /proc/PID/stat. Fields
// are counted from behind the command's name, which is in parentheses and may
// itself contain spaces and parentheses.
func parseStat(stat []byte) (time.Duration, error) {
	const utime, stime = 14 - 3, 15 - 3 // the field after the name is number 3
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if end < 0 || len(fields) <= stime {
		return 0, fmt.Errorf("/proc stat: too few fields in %q", stat)
	}
	var ticks int64
	for _, field := range [][]byte{fields[utime], fields[stime]} {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / ticksPerSecond), nil
}

// memory is what a process has in RAM, in bytes.
type memory struct {
	now  int64 // VmRSS
	peak int64 // VmHWM: the most it ever was
}

func memoryOf(pid int) (memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, err
	}
	return parseStatus(status)
}

// parseStatus reads /proc/PID/status. A process that has ended, and is not yet
// waited for, has no memory lines.
func parseStatus(status []byte) (memory, error) {
	var m memory
	for line := range bytes.Lines(status) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		var into *int64
		switch string(name) {
		case "VmRSS":
			into = &m.now
		case "VmHWM":
			into = &m.peak
		default:
			continue
		}
		kib, ok := bytes.CutSuffix(bytes.TrimSpace(rest), []byte(" kB"))
		n, err := strconv.ParseInt(string(bytes.TrimSpace(kib)), 10, 64)
		if !ok || err != nil {
			return memory{}, fmt.Errorf("/proc status: cannot read %q", line)
		}
		*into = n << 10
	}
	if m.now == 0 || m.peak == 0 {
		return memory{}, fmt.Errorf("/proc status: no VmRSS and VmHWM in it")
	}
	return m, nil
}
