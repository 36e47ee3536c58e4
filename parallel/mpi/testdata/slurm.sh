#!/bin/bash
# Runs a command, such as srun, in a Slurm of this machine alone, as root: it starts
# munged, slurmctld and slurmd with files and ports of their own, and ends them. When
# Slurm fails, it shows the daemons' logs.
set -eu
dir=$(mktemp -d) # only root may look in
mkdir "$dir/state" "$dir/spool"
# Two free ports, below those that the system gives to clients.
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
port=$((20000 + RANDOM % 12000))
while listens $port || listens $((port + 1)); do port=$((20000 + RANDOM % 12000)); done
host=$(hostname -s)
export SLURM_CONF=$dir/slurm.conf
cat >"$SLURM_CONF" <<END
ClusterName=pinion
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
CredType=cred/munge
SlurmctldPidFile=$dir/slurmctld.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdPidFile=$dir/slurmd.pid
SlurmdLogFile=$dir/slurmd.log
SlurmdSpoolDir=$dir/spool
StateSaveLocation=$dir/state
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=1
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
END

daemons=()
declare -A ports=() # where they listen
finish() {
	local status=$?
	trap '' INT TERM # timeout sends two
	for ((i = ${#daemons[@]} - 1; i >= 0; i--)); do stop "${daemons[i]}"; done
	[ $status -eq 0 ] || tail -n 30 "$dir"/*.log >&2
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' INT TERM

daemon() { # COMMAND…
	setsid "$@" </dev/null >>"$dir/$1.log" 2>&1 & # out of reach of ^C
	daemons+=($!)
}

# slurmctld and slurmd look whether they are to end, and then wait for a connection, however
# long that takes: a signal between the two does not end them until one comes.
stop() { # PID
	local pid=$1 n
	kill "$pid" 2>/dev/null || true
	for ((n = 0; n < 60; n++)); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.05
		[ -z "${ports[$pid]-}" ] || listens "${ports[$pid]}" || true
	done
	if kill -0 "$pid" 2>/dev/null; then
		echo "slurm.sh: has not ended for 3 seconds: $(ps -o args= "$pid")" >&2
		kill -KILL "$pid" || true
	fi
	wait "$pid" 2>/dev/null || true
}

alive() { # ends the script if one of them has ended
	local pid
	for pid in "${daemons[@]}"; do kill -0 "$pid"; done
}

head -c 1024 /dev/urandom >"$dir/munge.key"
chmod 600 "$dir/munge.key"
daemon munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
	--pid-file="$dir/munge.pid" --seed-file="$dir/munge.seed"
until [ -S "$dir/munge.socket" ]; do sleep 0.1; alive; done
daemon slurmctld -D -c
ports[$!]=$port
daemon slurmd -D
ports[$!]=$((port + 1))
until sinfo --noheader --states idle 2>/dev/null | grep -q "$host"; do sleep 0.2; alive; done
"$@" </dev/null &
daemons+=($!) # it ends first
wait $!
