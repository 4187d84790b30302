# The dumbbell for ns-2: scenarios/cross-check/dumbbell.toml again, as a rival and as a cross-check.
#
#   s0 ... s9  --10 Mbit/s, 2 ms--  r0  --2 Mbit/s, 6 ms, 25,000 bytes--  r1  --10 Mbit/s, 2 ms--  d0 ... d9
#
#   ns dumbbell.tcl [SEED [VARIANT [SECONDS]]]    VARIANT: Sack1 (default), Newreno, Reno
#
# Ten unbounded transfers, each begins within the first second, 1448 bytes of data and 52 of headers (with timestamps).
# Prints the data acknowledged, and Jain's index over the ten.

set seed [expr {$argc > 0 ? [lindex $argv 0] : 1}]
set variant [expr {$argc > 1 ? [lindex $argv 1] : "Sack1"}]
set duration [expr {$argc > 2 ? [lindex $argv 2] : 500.0}]
set senders 10
set payload 1448

if {[info exists env(LEAN)]} {
    # Only the headers that are used: as it is, ns-2 carries those of all its protocols in every packet.
    remove-all-packet-headers
    add-packet-header IP TCP Flags
}
ns-random $seed
set start [new RNG]

Queue/DropTail set queue_in_bytes_ true
Queue/DropTail set mean_pktsize_ 1000
Agent/TCP set packetSize_ $payload
Agent/TCP set tcpip_base_hdr_size_ 40
Agent/TCP set timestamps_ true
Agent/TCP set ts_option_ true
Agent/TCP set ts_option_size_ 12
Agent/TCP set window_ 10000
Agent/TCP set maxcwnd_ 0
Agent/TCP set windowInit_ 10
Agent/TCP set windowInitOption_ 1
Agent/TCP set tcpTick_ 0.001
Agent/TCP set minrto_ 1
Agent/TCP set numdupacks_ 3
Agent/TCP set singledup_ 1
Agent/TCP set useHeaders_ true
Agent/TCPSink set packetSize_ 52
Agent/TCPSink set ts_echo_rfc1323_ true
Agent/TCPSink/DelAck set interval_ 40ms
Agent/TCPSink/Sack1/DelAck set interval_ 40ms

set ns [new Simulator]
set r0 [$ns node]
set r1 [$ns node]
$ns duplex-link $r0 $r1 2Mb 6ms DropTail
$ns queue-limit $r0 $r1 25
$ns queue-limit $r1 $r0 1000
for {set i 0} {$i < $senders} {incr i} {
    set s($i) [$ns node]
    set d($i) [$ns node]
    $ns duplex-link $s($i) $r0 10Mb 2ms DropTail
    $ns duplex-link $r1 $d($i) 10Mb 2ms DropTail
    foreach {a b} [list $s($i) $r0 $r0 $s($i) $r1 $d($i) $d($i) $r1] { $ns queue-limit $a $b 1000 }
    if {$variant == "Sack1"} {
        set tcp($i) [new Agent/TCP/Sack1]
        set sink($i) [new Agent/TCPSink/Sack1/DelAck]
    } elseif {$variant == "Newreno"} {
        set tcp($i) [new Agent/TCP/Newreno]
        set sink($i) [new Agent/TCPSink/DelAck]
    } else {
        set tcp($i) [new Agent/TCP/Reno]
        set sink($i) [new Agent/TCPSink/DelAck]
    }
    # Up to 0.5 ms of processing, without which equal senders lock each other out.
    $tcp($i) set overhead_ 0.0005
    $ns attach-agent $s($i) $tcp($i)
    $ns attach-agent $d($i) $sink($i)
    $ns connect $tcp($i) $sink($i)
    set ftp($i) [new Application/FTP]
    $ftp($i) attach-agent $tcp($i)
    $ns at [$start uniform 0 1] "$ftp($i) start"
}

proc finish {} {
    global tcp senders duration payload
    set sum 0.0
    set squares 0.0
    for {set i 0} {$i < $senders} {incr i} {
        set rate [expr {([$tcp($i) set ack_] + 1) * $payload * 8.0 / $duration}]
        set sum [expr {$sum + $rate}]
        set squares [expr {$squares + $rate * $rate}]
    }
    puts [format "total_kbit %.1f" [expr {$sum / 1000}]]
    puts [format "jain %.6f" [expr {$sum * $sum / ($senders * $squares)}]]
    exit 0
}
$ns at $duration finish
$ns run
