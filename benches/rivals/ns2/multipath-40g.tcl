# Four saturated links side by side for ns-2: scenarios/cross-check/multipath-40g.toml again.
#
#   a ==(four links of 10 Gbit/s, 5 us)== b
#
#   ns multipath-40g.tcl [SEED [SECONDS]]
#
# One constant-rate source a link in packets of 192 bytes, at the link's rate, clocks off by up to 1000 ppm; the receiver counts. ns-2 has
# one link between two nodes, so that each path has a node of its own at both ends. Prints the packets received.

set seed [expr {$argc > 0 ? [lindex $argv 0] : 1}]
set duration [expr {$argc > 1 ? [lindex $argv 1] : 0.05}]
set links 4
set rate 10e9

if {[info exists env(LEAN)]} {
    # Only the headers that are used: as it is, ns-2 carries those of all its protocols in every packet.
    remove-all-packet-headers
    add-packet-header IP RTP
}
ns-random $seed
set draw [new RNG]
Queue/DropTail set queue_in_bytes_ true
Queue/DropTail set mean_pktsize_ 1000

set ns [new Simulator]
for {set i 0} {$i < $links} {incr i} {
    set a [$ns node]
    set b [$ns node]
    $ns simplex-link $a $b $rate 5us DropTail
    $ns queue-limit $a $b 1000
    set udp [new Agent/UDP]
    $udp set packetSize_ 192
    $ns attach-agent $a $udp
    set sink($i) [new Agent/LossMonitor]
    $ns attach-agent $b $sink($i)
    $ns connect $udp $sink($i)
    set cbr($i) [new Application/Traffic/CBR]
    $cbr($i) set packetSize_ 192
    $cbr($i) set rate_ [expr {$rate * (1 + [$draw uniform -0.001 0.001])}]
    $cbr($i) set random_ 0
    $cbr($i) attach-agent $udp
    $ns at 0 "$cbr($i) start"
}

proc finish {} {
    global sink links
    set packets 0
    for {set i 0} {$i < $links} {incr i} { incr packets [$sink($i) set npkts_] }
    puts "packets $packets"
    exit 0
}
$ns at $duration finish
$ns run
