#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The store nbd over TLS, on nbdkit and qemu-storage-daemon: data, wrong keys,
# and servers that end under load and start again.
. "$(dirname "$0")/nbd_lib.sh"
for program in psktool certtool; do
	command -v $program >/dev/null || t_skip_all "no $program here"
done
nbdkit --dump-config | grep -q tls=yes || t_skip_all 'this nbdkit has no TLS'

K=$T/keys
mkdir "$K" "$K/server" "$K/client" "$K/other"
psktool -u alice -p "$K/psk" >/dev/null 2>&1
psktool -u alice -p "$K/other/psk" >/dev/null 2>&1

# authority DIR: makes a key and a certificate that signs others
authority() {
	printf 'cn = authority\nca\ncert_signing_key\n' >"$K/ca.info"
	certtool --generate-privkey --outfile "$1/ca-key.pem" 2>/dev/null &&
		certtool --generate-self-signed --template "$K/ca.info" \
			--load-privkey "$1/ca-key.pem" \
			--outfile "$1/ca-cert.pem" 2>/dev/null
}
# certificates: makes the server's certificate, and that of its authority
certificates() {
	authority "$K" && authority "$K/other" &&
		cp "$K/ca-cert.pem" "$K/server" &&
		cp "$K/ca-cert.pem" "$K/client" || return
	printf 'cn = localhost\ndns_name = localhost\ntls_www_server\n%s\n' \
		encryption_key >"$K/server.info"
	certtool --generate-privkey --outfile "$K/server/server-key.pem" \
		2>/dev/null &&
		certtool --generate-certificate --template "$K/server.info" \
			--load-privkey "$K/server/server-key.pem" \
			--load-ca-certificate "$K/ca-cert.pem" \
			--load-ca-privkey "$K/ca-key.pem" \
			--outfile "$K/server/server-cert.pem" 2>/dev/null
}

psk() { echo "nbd:nbds://alice@localhost:$P/?tls-psk-file=$K/${1-}psk"; }
x509() { echo "nbd:nbds://localhost:$P/?tls-certificates=$K/$1"; }
unix_psk() {
	echo "nbd:nbds+unix://alice@/${1-}?socket=$S&tls-psk-file=$K/psk"
}
not_taken() { # NAME SPEC
	t_refused "$1" 'cannot connect: ' rdma-target --backing "$2"
}

# ---- keys and certificates

serve_tcp --tls=require --tls-psk="$K/psk" memory 64M
t_check 'a key keeps the contract' keeps "$(psk)"
not_taken 'no TLS' "nbd://localhost:$P"
not_taken 'another key' "$(psk other/)"
not_taken 'a key that is not there' "$(psk nosuch/)"
stop
t_check 'certificates are made' certificates
serve_tcp --tls=require --tls-certificates="$K/server" memory 64M
t_check 'a certificate keeps it' keeps "$(x509 client)"
not_taken 'one that another authority has signed' "$(x509 other)"
stop
serve --tls=require --tls-psk="$K/psk" memory 64M
t_check 'a UNIX socket keeps it' keeps "$(unix_psk)"
stop

[ -z "${SANITIZED-}" ] || t_done
t_needs_fuse
M=$T/mnt
mkdir "$M"

start() { # SPEC
	t_target --threads 2 --backing "$1,name=d,trust-server=on,wait=600"
	t_mount "$URI" "$M" 2>"$T/mount.log" || t_bail "$(cat "$T/mount.log")"
}
end_target() {
	fusermount3 -u "$M" && kill "$T_TARGET" && wait "$T_TARGET"
}
commands() {
	python3 -c 'import os, sys
print(os.getxattr(sys.argv[1], "user.rdma-block.commands").decode())' "$M/d"
}
more_commands() { [ "$(commands)" -gt $(($1 + 100)) ]; }

# survives END CMD...: three times, END ends the server and CMD starts it again;
# fio's data is correct
survives() {
	end=$1
	shift
	(cd "$T" && exec fio --name=load --filename="$M/d" --direct=1 --size=32M \
		--rw=randwrite --bsrange=4k-128k --ioengine=libaio --iodepth=16 \
		--rate_iops=,150 --verify=crc32c --verify_fatal=1 --do_verify=1 \
		--output-format=terse) >"$T/fio.log" 2>&1 &
	fio=$!
	ends=0
	while [ $ends -lt 3 ]; do
		t_wait_for 30 more_commands "$(commands)" || break
		t_is_gone $fio && break
		$end
		"$@"
		ends=$((ends + 1))
	done
	wait $fio
	status=$?
	cat "$T/fio.log" "$T/target.log"
	[ $status = 0 ] && [ $ends = 3 ] &&
		grep -q 'connected to the server again' "$T/target.log"
}
flushes() { sync "$M/d"; }

# ---- lost connections

truncate -s 64M "$T/file.img"
with_key() { serve_port --tls=require --tls-psk="$K/psk" file "$T/file.img"; }
serve_tcp --tls=require --tls-psk="$K/psk" file "$T/file.img"
start "$(psk)"
t_check 'fio verifies over TCP and a key while the server is killed' \
	survives crash with_key
t_check 'a flush is done' flushes
t_check 'unmounts and ends' end_target
stop

with_certificate() {
	serve_port --tls=require --tls-certificates="$K/server" file "$T/file.img"
}
serve_tcp --tls=require --tls-certificates="$K/server" file "$T/file.img"
start "$(x509 client)"
t_check 'over TCP and a certificate' survives crash with_certificate
t_check 'unmounts and ends' end_target
stop

start_qsd() {
	rm -f "$S"
	qemu-storage-daemon --pidfile "$S.pid" \
		--object "tls-creds-psk,id=tls,dir=$K/qsd,endpoint=server" \
		--blockdev "driver=qcow2,node-name=disk,file.driver=file,file.filename=$T/disk.qcow2,discard=unmap" \
		--nbd-server "addr.type=unix,addr.path=$S,tls-creds=tls,max-connections=8" \
		--export type=nbd,id=e,node-name=disk,name=disk,writable=on \
		>"$T/qsd.log" 2>&1 &
	SERVER=$!
	t_pids="$t_pids $SERVER"
	t_wait_for 10 test -S "$S" || t_bail "$(cat "$T/qsd.log")"
}
mkdir "$K/qsd"
cp "$K/psk" "$K/qsd/keys.psk"
qemu-img create -q -f qcow2 "$T/disk.qcow2" 64M
start_qsd
start "$(unix_psk disk)"
# A kill would lose metadata that qemu-storage-daemon has in memory.
t_check 'on qcow2, over a UNIX socket and a key, while the server restarts' \
	survives stop start_qsd
t_check 'a flush is done' flushes
t_check 'unmounts and ends' end_target
stop
t_check 'the image is whole' qemu-img check -q "$T/disk.qcow2"
t_done
